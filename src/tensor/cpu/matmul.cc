// Matrix products: blocking, packing and threads. The inner loops stand in gemm_kernel-inl.h.
//
// Letters: M rows, N columns, K the summed axis. After K. Goto, R. van de Geijn, "Anatomy of
// high-performance matrix multiplication", 2008, and F. Van Zee, R. van de Geijn, "BLIS: a
// framework for rapidly instantiating BLAS functionality", 2015, with one difference: the left
// operand is read where it lies, broadcast by broadcast, which costs nothing with tiles this wide.
//
// The right operand's panels come from one of three places:
//   - the cache of packed forms;
//   - shared scratch that all threads fill before they multiply, when a panel serves many tasks;
//   - scratch of the thread that multiplies, when it serves one or few: with little M, or with so
//     many panels that a pass through memory for their packed form would cost more than packing a
//     panel twice.
// Which one it is changes no bit of the result.
#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "lorica/tensor/cpu/cpu_backend_impl.h"
#include "lorica/tensor/cpu/gemm_kernel.h"
#include "lorica/tensor/cpu/gemm_operands.h"
#include "lorica/tensor/cpu/packed_cache.h"

namespace lorica::cpu {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t unit) { return CeilDiv(a, unit) * unit; }

// K a tile runs over before its sums return to memory. A panel of 64 f32 columns takes 192 KB of
// the second-level cache (1 MB on Zen 4, 2 MB on newer Xeons) beside the rows of a. On Zen 4 the
// tile runs at 96 to 99 % of the multiply-add peak for any K from 256 to 1536, at 93 % for 64.
constexpr int64_t kInnerK = 768;
// Rows of a per pass over a panel.
constexpr int64_t kBlockRows = 192;
// Shared packed panels at a time: fits in the last-level cache of anything with more than one core.
constexpr int64_t kSharedBytes = 16 << 20;
// K per packing task.
constexpr int64_t kPackK = 256;
// Multiply-adds of a task: about 40 us; the least is what starting one costs several times over.
constexpr int64_t kTaskWork = 2 << 20;
constexpr int64_t kLeastTaskWork = 256 << 10;
// Reading a panel from memory takes as long as multiplying it with this many rows.
constexpr int64_t kPanelReadRows = 24;
// Panels packed by the thread that uses them serve up to this many rows (packing takes as long as 5
// rows do, 24 where the operand comes from memory) and stay, a few of them, in the second-level
// cache beside kBlockRows rows of a.
constexpr int64_t kPrivateRows = 1020;
constexpr int64_t kPrivateBytes = 448 << 10;

template <typename T>
class GemmRun {
 public:
  GemmRun(ThreadPool& pool, const std::vector<std::unique_ptr<Workspace>>& scratch,
          const GemmDesc& desc, const GemmArgs& args)
      : pool_(pool),
        scratch_(scratch),
        kernels_(GemmKernelsFor<T>()),
        desc_(desc),
        args_(args),
        panels_(CeilDiv(desc.n, kernels_.width)),
        main_{args.a, args.b, desc.layout, desc.k},
        prefix_{args.prefix_a, args.prefix_b, desc.prefix_layout, desc.prefix_k} {}

  const GemmKernels<T>& kernels() const { return kernels_; }
  // Elements of the panels of `columns` columns over `k`.
  int64_t PackedSize(int64_t columns, int64_t k) const {
    const int64_t rest = columns % kernels_.width;
    return (columns - rest + (rest > 0 ? kernels_.PanelWidth(rest) : 0)) * k;
  }

  // Panels over all of K, from the cache or to be filled for it.
  void RunPacked(T* packed, bool fill, Workspace& shared) {
    T* prefix = static_cast<T*>(
        shared.Reserve(static_cast<size_t>(PackedSize(desc_.n, desc_.prefix_k)) * sizeof(T)));
    const Range all{0, panels_};
    PackPanels(all, 0, fill ? desc_.k : 0, packed, prefix);
    MultiplyShared(all, 0, desc_.k, packed, prefix, nullptr);
  }

  void RunShared(Workspace& shared) {
    // Whole K for a chunk of panels where eight of them fit, else a chunk of K.
    const int64_t panel_bytes = kernels_.width * static_cast<int64_t>(sizeof(T));
    const int64_t fit = kSharedBytes / panel_bytes;
    int64_t chunk_panels = fit / std::max<int64_t>(1, desc_.k);
    int64_t chunk_k = desc_.k;
    if (chunk_panels < std::min<int64_t>(panels_, 8)) {
      chunk_panels = std::min<int64_t>(panels_, 16);
      chunk_k = std::max(kInnerK, fit / chunk_panels / kInnerK * kInnerK);
    }
    chunk_panels = std::min(chunk_panels, panels_);
    const int64_t chunk_columns = std::min(desc_.n, chunk_panels * kernels_.width);
    const int64_t prefix_size = RoundUp(PackedSize(chunk_columns, desc_.prefix_k), 16);
    const int64_t main_size = RoundUp(PackedSize(chunk_columns, chunk_k), 16);
    // Sums between chunks of K, unless y can hold them.
    const bool keep_sums = chunk_k < desc_.k && !SumsInY();
    const int64_t sums_size = keep_sums ? desc_.m * chunk_columns : 0;
    T* prefix = static_cast<T*>(
        shared.Reserve(static_cast<size_t>(prefix_size + main_size + sums_size) * sizeof(T)));
    T* packed = prefix + prefix_size;
    T* sums = keep_sums ? packed + main_size : nullptr;
    for (int64_t panel = 0; panel < panels_; panel += chunk_panels) {
      const Range range{panel, std::min(panels_, panel + chunk_panels)};
      // At least one round: K may be 0.
      for (int64_t k = 0; k == 0 || k < desc_.k; k += chunk_k) {
        const int64_t k_count = std::min(chunk_k, desc_.k - k);
        PackPanels(range, k, k_count, packed, k == 0 ? prefix : nullptr);
        MultiplyShared(range, k, k_count, packed, prefix, sums);
        if (k_count == 0) break;
      }
    }
  }

  void RunPrivate() {
    const int64_t blocks = CeilDiv(desc_.m, kPrivateRows);
    const int64_t block_rows = RoundUp(CeilDiv(desc_.m, blocks), kGemmRowUnit);
    const int64_t row_blocks = CeilDiv(desc_.m, block_rows);
    const int64_t panel_bytes =
        kernels_.width * static_cast<int64_t>(sizeof(T)) * std::clamp<int64_t>(desc_.k, 1, kInnerK);
    const int64_t group =
        std::clamp<int64_t>(kPrivateBytes / panel_bytes, 1, CeilDiv(panels_, 8 * pool_.threads()));
    const int64_t groups = CeilDiv(panels_, group);
    ReserveScratch(group, true);
    pool_.Run(
        groups * row_blocks,
        [&](int64_t task, int thread) {
          const int64_t panel = task / row_blocks * group;
          const int64_t row = task % row_blocks * block_rows;
          const int64_t rows = std::min(block_rows, desc_.m - row);
          Source source;
          source.fresh = true;
          MultiplyRectangle({panel, std::min(panels_, panel + group)}, row, rows, 0, desc_.k,
                            source, nullptr, 0, thread);
        },
        kFlush);
  }

  // Whether RunPrivate serves better than RunShared: not for the 9 panels of a square product of
  // 2048 x 576 x 576, where packing them again for each block of rows cost 7 % (Zen 4).
  bool PrefersPrivate() const {
    if (desc_.m <= kBlockRows / 4) return true;
    return PackedSize(desc_.n, desc_.k) * static_cast<int64_t>(sizeof(T)) > kSharedBytes &&
           panels_ >= 16 * pool_.threads();
  }

 private:
  static constexpr bool kFlush = std::is_same_v<T, float>;

  struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };

  // Where the panels of a rectangle come from: packed ones beginning at its first panel, or fresh
  // ones made on the way.
  struct Source {
    bool fresh = false;
    const T* main = nullptr;
    int64_t main_stride = 0;  // from panel to panel
    const T* prefix = nullptr;
  };

  // Multiply-adds, or their like in time, of one panel.
  int64_t PanelWork(int64_t rows, int64_t k) const {
    return std::max(rows, kPanelReadRows) * kernels_.width * std::max<int64_t>(1, k);
  }

  bool SumsInY() const {
    return desc_.y_type == DTypeOf<T>::value &&
           !(desc_.has_addend && Overlap(args_.addend, args_.y));
  }

  int64_t Columns(Range panels) const {
    return std::min(desc_.n, panels.end * kernels_.width) - panels.begin * kernels_.width;
  }

  // Packs K range [k, k + k_count) of `panels` to `packed`, and the prefix's panels unless null.
  void PackPanels(Range panels, int64_t k, int64_t k_count, T* packed, T* prefix) {
    const int64_t pieces = CeilDiv(k_count, kPackK);
    const int64_t prefix_pieces = prefix != nullptr && desc_.prefix_k > 0 ? 1 : 0;
    pool_.Run(
        panels.size() * (pieces + prefix_pieces),
        [&](int64_t task, int) {
          const int64_t index = task / (pieces + prefix_pieces);
          const int64_t piece = task % (pieces + prefix_pieces);
          const int64_t column = (panels.begin + index) * kernels_.width;
          const int64_t columns = std::min(kernels_.width, desc_.n - column);
          const int64_t width = kernels_.PanelWidth(columns);
          if (piece == pieces) {
            kernels_.pack(prefix_.Piece(0, desc_.prefix_k, column, columns), width,
                          prefix + index * kernels_.width * desc_.prefix_k);
            return;
          }
          const int64_t begin = piece * kPackK;
          const int64_t count = std::min(kPackK, k_count - begin);
          kernels_.pack(main_.Piece(k + begin, count, column, columns), width,
                        packed + index * kernels_.width * k_count + begin * width);
        },
        kFlush);
  }

  void MultiplyShared(Range panels, int64_t k, int64_t k_count, const T* packed, const T* prefix,
                      T* sums) {
    // Tasks of one panel and kBlockRows rows, a's rows staying in cache while the panels change;
    // larger while the work of one is too small, smaller while there are too few for balance.
    const int64_t threads = pool_.threads();
    int64_t rows = std::min(RoundUp(desc_.m, kGemmRowUnit), kBlockRows);
    const auto tasks_of = [&](int64_t block_rows, int64_t panel_group) {
      return CeilDiv(desc_.m, block_rows) * CeilDiv(panels.size(), panel_group);
    };
    while (rows > 2 * kGemmRowUnit && tasks_of(rows, 1) < 8 * threads &&
           PanelWork(rows, k_count + desc_.prefix_k) > 2 * kTaskWork) {
      rows = RoundUp(rows / 2, kGemmRowUnit);
    }
    const int64_t panel_work = PanelWork(rows, k_count + desc_.prefix_k);
    // Rows that must be converted first are so once per task.
    const int64_t least_group = ConvertedK() > 0 ? 4 : 1;
    int64_t group = CeilDiv(kLeastTaskWork, panel_work);
    while (tasks_of(rows, 2 * group) >= 4 * threads &&
           (group < least_group || group * panel_work < kTaskWork)) {
      group *= 2;
    }
    group = std::min(group, panels.size());
    const int64_t groups = CeilDiv(panels.size(), group);
    ReserveScratch(group, false);
    pool_.Run(
        CeilDiv(desc_.m, rows) * groups,
        [&](int64_t task, int thread) {
          const int64_t row = task / groups * rows;
          const int64_t offset = task % groups * group;
          const Range range{panels.begin + offset,
                            std::min(panels.end, panels.begin + offset + group)};
          Source source;
          source.main_stride = kernels_.width * k_count;
          source.main = packed + offset * source.main_stride;
          source.prefix = prefix + offset * kernels_.width * desc_.prefix_k;
          const int64_t sums_stride = Columns(panels);
          T* sums_here =
              sums == nullptr ? nullptr : sums + row * sums_stride + offset * kernels_.width;
          MultiplyRectangle(range, row, std::min(rows, desc_.m - row), k, k_count, source,
                            sums_here, sums_stride, thread);
        },
        kFlush);
  }

  // Per-thread scratch: a's rows as T where they are of another type, fresh panels, sums between
  // the inner blocks of K where y can't hold them.
  struct Scratch {
    T* a = nullptr;
    T* panel = nullptr;
    T* prefix_panel = nullptr;
    T* sums = nullptr;
  };

  int64_t ConvertedK() const {
    int64_t k = 0;
    if (args_.a.dtype != DTypeOf<T>::value) k = std::min(desc_.k, kInnerK);
    if (desc_.prefix_k > 0 && args_.prefix_a.dtype != DTypeOf<T>::value) k += desc_.prefix_k;
    return RoundUp(k, 16);
  }

  void ReserveScratch(int64_t panel_group, bool fresh) {
    a_size_ = kBlockRows * ConvertedK();
    panel_size_ = fresh ? panel_group * kernels_.width * std::min(desc_.k, kInnerK) : 0;
    prefix_panel_size_ = fresh ? panel_group * kernels_.width * desc_.prefix_k : 0;
    const int64_t sum_rows =
        fresh ? RoundUp(std::min(desc_.m, kPrivateRows), kGemmRowUnit) : kBlockRows;
    const int64_t sums_size =
        desc_.k > kInnerK && !SumsInY() ? sum_rows * panel_group * kernels_.width : 0;
    const size_t bytes =
        static_cast<size_t>(a_size_ + panel_size_ + prefix_panel_size_ + sums_size) * sizeof(T);
    if (bytes == 0) return;
    for (const auto& workspace : scratch_) workspace->Reserve(bytes);
  }

  Scratch ScratchOf(int thread) const {
    Scratch scratch;
    scratch.a = static_cast<T*>(scratch_[static_cast<size_t>(thread)]->Reserve(0));
    scratch.panel = scratch.a + a_size_;
    scratch.prefix_panel = scratch.panel + panel_size_;
    scratch.sums = scratch.prefix_panel + prefix_panel_size_;
    return scratch;
  }

  // Rows of a from (row, k) on as T.
  GemmSegment<T> LeftSegment(const TensorView& a, int64_t row, int64_t rows, int64_t k,
                             int64_t k_count, T* converted) const {
    GemmSegment<T> segment;
    const int64_t stride = RowStride(a);
    const void* data = Offset(a.data, a.dtype, row * stride + k);
    segment.k = k_count;
    if (a.dtype == DTypeOf<T>::value) {
      segment.a = static_cast<const T*>(data);
      segment.a_stride = stride;
    } else {
      kernels_.convert(data, a.dtype, stride, rows, k_count, converted, k_count);
      segment.a = converted;
      segment.a_stride = k_count;
    }
    return segment;
  }

  // y[row .. row + rows, panels] over [k, k + k_count); from and to `sums` (null: y, or scratch for
  // what stays within this call) where the range isn't all of K.
  void MultiplyRectangle(Range panels, int64_t row, int64_t rows, int64_t k, int64_t k_count,
                         const Source& source, T* sums, int64_t sums_stride, int thread) {
    const Scratch scratch = ScratchOf(thread);
    const int64_t column = panels.begin * kernels_.width;
    const int64_t y_stride = RowStride(args_.y);
    GemmBlock<T> block;
    block.columns = Columns(panels);
    block.y_type = desc_.y_type;
    block.y_stride = y_stride;
    if (sums == nullptr && SumsInY()) {
      sums = static_cast<T*>(args_.y.data) + row * y_stride + column;
      sums_stride = y_stride;
    } else if (sums == nullptr) {
      sums = scratch.sums;
      sums_stride = kernels_.width * panels.size();
    }
    block.sums_stride = sums_stride;
    // At least one round: K may be 0.
    for (int64_t inner = 0; inner == 0 || inner < k_count; inner += kInnerK) {
      const int64_t inner_k = std::min(kInnerK, k_count - inner);
      block.first = k + inner == 0;
      block.last = k + inner + inner_k == desc_.k;
      const bool with_prefix = block.first && desc_.prefix_k > 0;
      if (source.fresh) {
        if (with_prefix) PackFresh(prefix_, panels, 0, desc_.prefix_k, scratch.prefix_panel);
        PackFresh(main_, panels, k + inner, inner_k, scratch.panel);
      }
      for (int64_t r = 0; r < rows; r += kBlockRows) {
        block.rows = std::min(kBlockRows, rows - r);
        block.num_segments = 0;
        T* converted = scratch.a;
        if (with_prefix) {
          GemmSegment<T>& segment = block.segments[block.num_segments++];
          segment = LeftSegment(args_.prefix_a, row + r, block.rows, 0, desc_.prefix_k, converted);
          segment.panels = source.fresh ? scratch.prefix_panel : source.prefix;
          segment.panel_stride = kernels_.width * desc_.prefix_k;
          // Null where the left operand is read in place.
          if (converted != nullptr) converted += kBlockRows * desc_.prefix_k;
        }
        GemmSegment<T>& segment = block.segments[block.num_segments++];
        segment = LeftSegment(args_.a, row + r, block.rows, k + inner, inner_k, converted);
        segment.panels = source.fresh ? scratch.panel : source.main;
        segment.panel_stride = source.fresh ? kernels_.width * inner_k : source.main_stride;
        // Within a packed panel k moves by the panel's width, which only the last one has of its
        // own: it goes by itself.
        MultiplyInner(block, source, inner, row + r, column, sums + r * sums_stride);
      }
      if (inner_k == 0) break;
    }
  }

  void PackFresh(const GemmOperands& product, Range panels, int64_t k, int64_t k_count,
                 T* packed) const {
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t column = panel * kernels_.width;
      const int64_t columns = std::min(kernels_.width, desc_.n - column);
      kernels_.pack(product.Piece(k, k_count, column, columns), kernels_.PanelWidth(columns),
                    packed);
      packed += kernels_.width * k_count;
    }
  }

  void MultiplyInner(GemmBlock<T> block, const Source& source, int64_t inner, int64_t row,
                     int64_t column, T* sums) const {
    const int64_t all_columns = block.columns;
    const int64_t whole =
        inner == 0 || source.fresh ? all_columns : all_columns / kernels_.width * kernels_.width;
    GemmSegment<T>& main = block.segments[block.num_segments - 1];
    const T* panels = main.panels;
    for (int64_t begin = 0; begin < all_columns;) {
      const int64_t end = begin < whole ? whole : all_columns;
      const int64_t width = kernels_.PanelWidth(end - begin);
      block.columns = end - begin;
      if (!source.fresh) {
        main.panels = panels + begin / kernels_.width * source.main_stride + inner * width;
      }
      const int64_t at = column + begin;
      block.sums = sums + begin;
      block.y = Offset(args_.y.data, desc_.y_type, row * block.y_stride + at);
      if (desc_.has_bias) {
        block.bias = Offset(args_.bias.data, args_.bias.dtype, at);
        block.bias_type = args_.bias.dtype;
      }
      if (desc_.has_addend) {
        block.addend_stride = RowStride(args_.addend);
        block.addend =
            Offset(args_.addend.data, args_.addend.dtype, row * block.addend_stride + at);
        block.addend_type = args_.addend.dtype;
      }
      kernels_.multiply(block);
      begin = end;
    }
  }

  ThreadPool& pool_;
  const std::vector<std::unique_ptr<Workspace>>& scratch_;
  const GemmKernels<T>& kernels_;
  const GemmDesc& desc_;
  const GemmArgs& args_;
  const int64_t panels_;
  const GemmOperands main_;
  const GemmOperands prefix_;
  int64_t a_size_ = 0, panel_size_ = 0, prefix_panel_size_ = 0;
};

template <typename T>
void RunGemm(ThreadPool& pool, const std::vector<std::unique_ptr<Workspace>>& scratch,
             Workspace& shared, PackedCache& cache, const GemmDesc& desc, const GemmArgs& args) {
  GemmRun<T> run(pool, scratch, desc, args);
  if (args.b_storage_id != 0 && desc.k > 0) {
    const PackedKey key = {.storage_id = args.b_storage_id,
                           .version = args.b_storage_version,
                           .data = args.b.data,
                           .layout = desc.layout,
                           .type = args.b.dtype,
                           .n = desc.n,
                           .k = desc.k,
                           .stride = RowStride(args.b),
                           .panel_width = run.kernels().width};
    if (const void* found = cache.Find(key)) {
      return run.RunPacked(const_cast<T*>(static_cast<const T*>(found)), false, shared);
    }
    const size_t bytes = static_cast<size_t>(run.PackedSize(desc.n, desc.k)) * sizeof(T);
    if (void* fresh = cache.Insert(key, bytes)) {
      return run.RunPacked(static_cast<T*>(fresh), true, shared);
    }
  }
  if (run.PrefersPrivate()) return run.RunPrivate();
  run.RunShared(shared);
}

}  // namespace

void CpuBackend::Gemm(const GemmDesc& desc, const GemmArgs& args) {
  if (desc.m == 0 || desc.n == 0) return;
  if (desc.y_type == DType::kF64) {
    RunGemm<double>(pool_, thread_scratch_, packed_, *packed_cache_, desc, args);
  } else {
    RunGemm<float>(pool_, thread_scratch_, packed_, *packed_cache_, desc, args);
  }
}

}  // namespace lorica::cpu
