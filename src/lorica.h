// Umbrella header.
#ifndef LORICA_LORICA_H_
#define LORICA_LORICA_H_

#include "lorica/tensor/check.h"
#include "lorica/tensor/dtype.h"
#include "lorica/tensor/status.h"

#endif  // LORICA_LORICA_H_
