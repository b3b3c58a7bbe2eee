// SPDX-License-Identifier: Apache-2.0
// Prints docs/settings.md; `make docs` redirects it to the file.
#include <cstdio>

#include "base/config.h"

int main() { std::fputs(hvd::settings_page().c_str(), stdout); }
