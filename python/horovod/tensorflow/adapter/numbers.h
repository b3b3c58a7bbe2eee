// Names for operations without one. Ranks start those of a process set in the same order, so that a
// number of each set its own tells them apart.
#pragma once

#include <cstdint>

namespace hvd::tensorflow {

// The next number of a set.
uint64_t take_number(int32_t process_set);
// Nothing was started: a mistake of one rank must not set it apart from the others.
void give_back(int32_t process_set, uint64_t number);
// Counts anew: in one set after a join, which some ranks have come to earlier; in all sets when a
// new job begins.
void forget_numbers(int32_t process_set);
void forget_all_numbers();

}  // namespace hvd::tensorflow
