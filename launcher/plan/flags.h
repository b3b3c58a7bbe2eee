// SPDX-License-Identifier: Apache-2.0
// All flags of horovodrun in one table. The command-line parser, the config file, the variables of
// the ranks, the help and docs/horovodrun.md all use it, so that no flag can be missing in one of
// them. To add a flag: add a field to Options and a row to flag_table.cc, then run `make docs`.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace hvd::launcher {

// The values of the flags. A field is empty if neither the command line nor the config file set it.
struct Options {
  using Switch = std::optional<bool>;
  using Integer = std::optional<int>;
  using Number = std::optional<double>;
  using Text = std::optional<std::string>;
  using List = std::vector<std::string>;
  using Pair = std::optional<std::array<int, 2>>;

  Switch help, version, check_build, doctor, verbose;
  Text config_file;

  Integer num_proc;
  Text hosts, hostfile, discovery_script;
  List interfaces;
  Integer start_timeout;
  Integer ssh_port;
  Text ssh_identity_file, ssh_args;
  Switch disable_cache;

  Text output_filename;
  Switch prefix_timestamp;

  Integer min_num_proc, max_num_proc, slots_per_host, elastic_timeout, reset_limit;
  Pair cooldown_range;

  Switch use_gloo, use_mpi, use_jsrun;
  Text mpi_args, binding_args;
  Switch tcp;

  Integer fusion_threshold_mb;
  Number cycle_time_ms;
  Integer cache_capacity;
  Switch hierarchical_allreduce, hierarchical_allgather, torus_allreduce;

  Switch autotune;
  Text autotune_log_file;
  Integer autotune_warmup_samples, autotune_steps_per_sample, autotune_bayes_opt_max_samples;
  Number autotune_gaussian_process_noise;

  Text timeline_filename;
  Switch timeline_mark_cycles;

  Switch no_stall_check;
  Integer stall_check_warning_time, stall_check_shutdown_time;

  Switch mpi_threads_disable;
  Integer num_nccl_streams;
  Text thread_affinity;
  Integer gloo_timeout;

  Text log_level;
  Switch log_without_timestamp;
};

using OptionField = std::variant<Options::Switch Options::*, Options::Integer Options::*,
                                 Options::Number Options::*, Options::Text Options::*,
                                 Options::List Options::*, Options::Pair Options::*>;

// At most one flag of each group may be given.
enum class ExclusiveGroup { kNone, kHosts, kController, kTimestamps };

// The value that follows a flag.
struct FlagValue {
  std::string_view name = "";  // placeholder in the help, such as SECONDS; empty for a switch
  double least = 0;            // for numbers; both limits are inclusive
  double most = std::numeric_limits<int>::max();
  bool (*accepts)(std::string_view) = nullptr;  // check of a text; null: any text
  std::string_view accepted = "";               // description of the values, for messages
};

struct FlagExtras {
  std::string_view off = "";                                  // names that turn a switch off
  std::string_view hidden_names = "", hidden_off_names = "";  // accepted, not shown in the help
  ExclusiveGroup exclusive = ExclusiveGroup::kNone;
  std::string_view config_key = "";  // "params.cycle_time_ms"
  bool config_inverted = false;      // true in the file means false for the flag
  std::string_view variable = "";    // environment variable of the ranks
  int factor = 1;                    // multiplies the value in `variable`
  std::string_view needs = "";       // without that flag, this one has no effect
};

struct Flag {
  std::string_view section;
  std::string_view names;  // "-np, --num-proc"
  OptionField field;
  std::string_view help;
  FlagValue value = {};
  FlagExtras extras = {};
};

std::span<const Flag> flags();
// The flag with this name. Aborts if there is none.
const Flag& flag_named(std::string_view name);
// "a, b" as "a" and "b".
std::vector<std::string_view> names_in(std::string_view names);

// The name for messages: the first of its names.
std::string_view name_of(const Flag& flag);
bool is_switch(const Flag& flag);
// Number of words that follow the flag on the command line: 0, 1, or 2 for a pair.
int words_after(const Flag& flag);
// Description of accepted values, such as "a whole number from 1".
std::string accepted_by(const Flag& flag);

// Parses `text` into the field of the flag. The error contains the value and the accepted values;
// the caller adds the context (flag name, or file and line).
Status read_value(const Flag& flag, std::string_view text, Options& options);
bool is_set(const Flag& flag, const Options& options);
// The value of the field as text for an environment variable; none if it is not set.
std::optional<std::string> value_text(const Flag& flag, const Options& options);
// Whether the flag that this one needs (FlagExtras::needs) is set and on; true if it needs none.
bool has_effect(const Flag& flag, const Options& options);

}  // namespace hvd::launcher
