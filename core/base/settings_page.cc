// SPDX-License-Identifier: Apache-2.0
// Prints docs/settings.md; `make docs` puts it there.
#include <cstdio>

#include "base/config.h"

int main() { std::fputs(hvd::settings_page().c_str(), stdout); }
