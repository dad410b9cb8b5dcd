#include "lorica/tensor/gemm.h"

#include <sstream>

namespace lorica {
namespace {

const char* NameOf(GemmLayout layout) { return layout == GemmLayout::kNT ? "nt" : "nn"; }

}  // namespace

std::string GemmDesc::ToString() const {
  std::ostringstream out;
  out << "gemm_" << NameOf(layout) << " m=" << m << " n=" << n << " k=" << k << " " << a_type << "*"
      << b_type << "->" << y_type;
  if (prefix_k > 0) out << " prefix_" << NameOf(prefix_layout) << " k=" << prefix_k;
  if (has_bias) out << " bias";
  if (has_addend) out << " addend";
  return out.str();
}

std::string GroupedGemmDesc::ToString() const {
  std::ostringstream out;
  out << "grouped_gemm_" << NameOf(layout) << " groups=" << offsets.groups() << " m=" << m
      << " n=" << n << " k=" << k << " " << a_type << "*" << b_type << "->" << y_type;
  if (prefix_k > 0) out << " prefix_" << NameOf(prefix_layout) << " k=" << prefix_k;
  if (has_bias) out << " bias";
  if (has_addend) out << " addend";
  return out.str();
}

}  // namespace lorica
