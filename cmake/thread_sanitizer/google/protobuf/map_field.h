// Stands before protobuf's own header in builds with the thread sanitizer. There, that header gives its maps two
// members that those of the installed library, which is built without, do not have: every member behind them would be
// sought in the wrong place.
#pragma once

#include <memory>  // what libstdc++ asks of the compiler is asked before

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
