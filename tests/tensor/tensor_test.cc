#include "lorica/tensor/tensor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu_backend.h"

namespace lorica {
namespace {

class TensorTest : public testing::Test {
 protected:
  Tensor Counting(const Shape& shape, DType dtype = DType::kF32) {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    return raw::Cast(Tensor::FromHost<double>(*backend_, shape, values), dtype);
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(TensorTest, Making) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_THROW(Tensor().view(), Error);
  EXPECT_EQ(Tensor::Zeros(*backend_, {2, 2}, DType::kBF16).ToDoubles(),
            (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(Tensor::Full(*backend_, {3}, DType::kI64, 4).ToDoubles(),
            (std::vector<double>{4, 4, 4}));
  EXPECT_THROW(Tensor::Empty(*backend_, {2, -1}, DType::kF32), Error);
  const float values[2] = {1, 2};
  EXPECT_THROW(Tensor::FromHost<float>(*backend_, {3}, values), Error);
  const Tensor x = Tensor::FromHost<float>(*backend_, {2}, values);
  EXPECT_EQ(x.bytes(), 8u);
  EXPECT_EQ(x.data<float>()[1], 2);
  EXPECT_EQ(Tensor::Zeros(*backend_, {0, 3}, DType::kF32).ToDoubles().size(), 0u);
}

TEST_F(TensorTest, ViewsShareStorage) {
  const Tensor x = Counting({3, 4});
  const Tensor middle = x.Narrow(0, 1, 2).Narrow(1, 1, 2);
  EXPECT_EQ(middle.ToDoubles(), (std::vector<double>{5, 6, 9, 10}));
  EXPECT_EQ(middle.storage(), x.storage());
  EXPECT_FALSE(middle.is_contiguous());
  EXPECT_EQ(x.Transpose(0, 1).ToDoubles(),
            (std::vector<double>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(x.WithShape({2, 6}).ToDoubles(), x.ToDoubles());
  EXPECT_THROW(x.WithShape({5}), Error);
  EXPECT_THROW(middle.WithShape({4}), Error);
  EXPECT_THROW(x.Narrow(0, 2, 2), Error);
  EXPECT_THROW(x.Narrow(1, -1, 2), Error);
  EXPECT_EQ(x.Narrow(0, 3, 0).numel(), 0);
}

TEST_F(TensorTest, MutableAccessCountsTheVersion) {
  Tensor x = Counting({4});
  const uint64_t before = x.storage()->version();
  x.view();
  x.data<float>();
  EXPECT_EQ(x.storage()->version(), before);
  x.mutable_data<float>()[0] = 9;
  EXPECT_EQ(x.storage()->version(), before + 1);
  Tensor view = x.Narrow(0, 1, 2);
  view.mutable_view();
  EXPECT_EQ(x.storage()->version(), before + 2) << "a view writes into the same storage";
}

TEST_F(TensorTest, StoragesHaveDistinctIds) {
  const uint64_t first = Counting({1}).storage()->id();
  EXPECT_NE(Counting({1}).storage()->id(), first);
}

TEST_F(TensorTest, BorrowedBytesAreReadOnlyAndKeepTheirOwner) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watch = owner;
  {
    Tensor x(Storage::Borrow(*backend_, owner->data(), 12, owner), {3}, {1}, 0, DType::kF32);
    owner.reset();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(x.ToDoubles(), (std::vector<double>{1, 2, 3}));
    EXPECT_THROW(x.mutable_view(), Error);
  }
  EXPECT_TRUE(watch.expired());
}

TEST_F(TensorTest, MemoryComesBack) {
  const size_t before = backend_->allocator().stats().active;
  {
    const Tensor x = Counting({1000});
    const Tensor y = x.Narrow(0, 0, 1);
    EXPECT_GE(backend_->allocator().stats().active, before + 4000);
  }
  EXPECT_EQ(backend_->allocator().stats().active, before);
}

TEST_F(TensorTest, ItemNeedsOneElement) {
  EXPECT_EQ(Counting({1, 1}).item(), 0);
  EXPECT_THROW(Counting({2}).item(), Error);
  EXPECT_THROW(Tensor().item(), Error);
}

TEST_F(TensorTest, RawOpsCopyOnlyWhenTheyMust) {
  const Tensor x = Counting({2, 3});
  EXPECT_EQ(raw::Contiguous(x).storage(), x.storage());
  EXPECT_EQ(raw::Cast(x, DType::kF32).storage(), x.storage());
  EXPECT_NE(raw::Clone(x).storage(), x.storage());
  const Tensor turned = raw::Contiguous(x.Transpose(0, 1));
  EXPECT_TRUE(turned.is_contiguous());
  EXPECT_EQ(turned.ToDoubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

class Slot : public AutogradSlot {};

TEST_F(TensorTest, DetachDropsTheAutogradSlotOnly) {
  Tensor x = Counting({2});
  x.set_autograd(std::make_shared<Slot>());
  const Tensor copy = x;
  EXPECT_EQ(copy.autograd(), x.autograd());
  EXPECT_EQ(x.Detach().autograd(), nullptr);
  EXPECT_EQ(x.Detach().storage(), x.storage());
  EXPECT_EQ(x.WithShape({1, 2}).autograd(), nullptr);
}

TEST_F(TensorTest, PlacementIsCarried) {
  Tensor x = Counting({2});
  EXPECT_EQ(x.placement(), Placement::Replicate());
  x.set_placement(Placement::Shard(0));
  EXPECT_EQ(x.Detach().placement(), Placement::Shard(0));
}

}  // namespace
}  // namespace lorica
