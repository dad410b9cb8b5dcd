// One scale for a whole file, where its readers know no more.
#ifndef LORICA_PEFT_LAYOUTS_SCALE_FOLDING_H_
#define LORICA_PEFT_LAYOUTS_SCALE_FOLDING_H_

#include <functional>

#include "lorica/peft/stored_adapter.h"

namespace lorica::layouts {

// The scale of the most modules, of several such the first; not 0.
double CommonScale(const StoredAdapter& adapter);

// The same deltas with `target(module)` as every module's scale, as alpha / R: where a module has
// another, B is multiplied by their ratio and rounded once.
StoredAdapter WithScales(StoredAdapter adapter,
                         const std::function<double(const StoredModule&)>& target);

// The same deltas with every rank the largest one; what is added is zero. Scales stay.
StoredAdapter WithOneRank(StoredAdapter adapter);

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_SCALE_FOLDING_H_
