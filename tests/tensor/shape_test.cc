#include "lorica/tensor/shape.h"

#include <gtest/gtest.h>

#include "lorica/tensor/sequences.h"
#include "lorica/tensor/view.h"

namespace lorica {
namespace {

TEST(ShapeTest, ExtentsFromBothEnds) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.numel(), 24);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.ToString(), "[2, 3, 4]");
  EXPECT_THROW(shape[3], Error);
  EXPECT_THROW(shape[-4], Error);
}

TEST(ShapeTest, ScalarAndEmpty) {
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().rows(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ((Shape{3, 0, 2}).numel(), 0);
}

TEST(ShapeTest, EqualityLooksAtRankAndExtents) {
  EXPECT_EQ((Shape{1, 2}), (Shape{1, 2}));
  EXPECT_FALSE((Shape{1, 2}) == (Shape{2, 1}));
  EXPECT_FALSE((Shape{2}) == (Shape{2, 1}));
}

TEST(ShapeTest, RefusesTooManyAxes) {
  EXPECT_NO_THROW((Shape{1, 1, 1, 1, 1, 1}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST(ShapeTest, ContiguousStrides) {
  EXPECT_EQ(ContiguousStrides({2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_TRUE(IsContiguous({2, 3, 4}, {12, 4, 1}));
  EXPECT_TRUE(IsContiguous({2, 1, 4}, {4, 77, 1})) << "the stride of one element means nothing";
  EXPECT_FALSE(IsContiguous({2, 3, 4}, {12, 1, 3}));
  EXPECT_FALSE(IsContiguous({2, 3}, {4, 1}));
}

TEST(ShapeTest, Broadcast) {
  EXPECT_EQ(BroadcastShapes("add", {2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(BroadcastShapes("add", {2, 1}, {1, 5}), (Shape{2, 5}));
  EXPECT_EQ(BroadcastShapes("add", {}, {4}), (Shape{4}));
  EXPECT_EQ(BroadcastShapes("add", {1}, {0}), (Shape{0}));
  try {
    BroadcastShapes("add", {2, 3}, {2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[add] shapes don't broadcast: [2, 3] and [2]");
  }
}

TEST(RowOffsetsTest, GroupsAndSizes) {
  const RowOffsets offsets{{0, 2, 2, 7}};
  EXPECT_EQ(offsets.groups(), 3);
  EXPECT_EQ(offsets.rows(), 7);
  EXPECT_EQ(offsets.begin(2), 2);
  EXPECT_EQ(offsets.size(1), 0);
  EXPECT_EQ(RowOffsets::Single(4), (RowOffsets{{0, 4}}));
  EXPECT_EQ(RowOffsets().groups(), 0);
}

TEST(RowOffsetsTest, CheckNamesWhatIsWrong) {
  const auto message = [](const RowOffsets& offsets, int64_t rows) -> std::string {
    try {
      offsets.Check("experts", rows);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({{0, 3, 3, 5}}, 5), "");
  EXPECT_EQ(message({{1, 3}}, 3), "[experts] row offsets must begin with 0");
  EXPECT_EQ(message({{}}, 0), "[experts] row offsets must begin with 0");
  EXPECT_EQ(message({{0, 3, 2}}, 2), "[experts] row offsets fall at group 1: 3 then 2");
  EXPECT_EQ(message({{0, 3}}, 4), "[experts] row offsets end at 3, expected the row count 4");
}

}  // namespace
}  // namespace lorica
