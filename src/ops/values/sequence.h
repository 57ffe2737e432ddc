// Sequences of tensors: SequenceConstruct, SequenceEmpty, SequenceInsert, SequenceErase, SequenceAt, SequenceLength,
// SplitToSequence, ConcatFromSequence.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef sequence_construct;
extern const OpDef sequence_empty;
extern const OpDef sequence_insert;
extern const OpDef sequence_erase;
extern const OpDef sequence_at;
extern const OpDef sequence_length;
extern const OpDef split_to_sequence;
extern const OpDef concat_from_sequence;

}  // namespace tessera::ops
