// Nothing: the target that this belongs to exists for its precompiled header.
