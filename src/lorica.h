// All of Lorica's public interface, lowest floor first. Programs that care about compile time
// include what they use.
#ifndef LORICA_LORICA_H_
#define LORICA_LORICA_H_

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/gradcheck.h"
#include "lorica/autograd/op.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/weight.h"
#include "lorica/cuda/cuda_backend.h"
#include "lorica/dist/communicator.h"
#include "lorica/nn/decoder.h"
#include "lorica/nn/generate.h"
#include "lorica/nn/init.h"
#include "lorica/nn/model_loader.h"
#include "lorica/nn/module.h"
#include "lorica/optim/adamw.h"
#include "lorica/optim/clip.h"
#include "lorica/optim/lr_schedule.h"
#include "lorica/optim/muon.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/peft/layouts/adapter_layout.h"
#include "lorica/peft/merge.h"
#include "lorica/peft/peft_files.h"
#include "lorica/peft/stored_adapter.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/tensor.h"
#include "lorica/tensor/thread_pool.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/convert_adapter.h"
#include "lorica/train/score.h"
#include "lorica/train/sft.h"
#include "lorica/train/trainer.h"

#endif  // LORICA_LORICA_H_
