// How a tensor's value is spread over the ranks of a group. A plain value; ops check it and pass it
// on by rule, the dist floor acts on it. On one rank everything is Replicate.
#ifndef LORICA_TENSOR_PLACEMENT_H_
#define LORICA_TENSOR_PLACEMENT_H_

#include <ostream>

namespace lorica {

struct Placement {
  enum class Kind {
    kReplicate,  // every rank holds the whole value
    kShard,      // rank i holds the i-th slice along `axis`
    kPartial,    // the value is the sum over the ranks, still to be made
  };
  Kind kind = Kind::kReplicate;
  int axis = 0;  // for kShard; 0 otherwise

  static Placement Replicate() { return {}; }
  static Placement Shard(int axis) { return {Kind::kShard, axis}; }
  static Placement Partial() { return {Kind::kPartial, 0}; }
  bool operator==(const Placement&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kReplicate:
      return out << "replicate";
    case Placement::Kind::kShard:
      return out << "shard(" << placement.axis << ")";
    case Placement::Kind::kPartial:
      return out << "partial";
  }
  return out;
}

}  // namespace lorica

#endif  // LORICA_TENSOR_PLACEMENT_H_
