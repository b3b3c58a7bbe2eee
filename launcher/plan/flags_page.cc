// SPDX-License-Identifier: Apache-2.0
// Prints docs/horovodrun.md with up-to-date tables of flags; `make docs` replaces the file.
#include <cstdio>

#include "launcher/plan/help.h"
#include "launcher/plan/system_info.h"

int main(int argc, char** argv) {
  const auto page = hvd::launcher::read_file(argc > 1 ? argv[1] : "docs/horovodrun.md");
  const auto written = page.is_ok() ? hvd::launcher::with_flag_tables(*page) : page;
  if (!written.is_ok()) {
    std::fprintf(stderr, "%s\n", written.status().message().c_str());
    return 1;
  }
  std::fputs(written->c_str(), stdout);
}
