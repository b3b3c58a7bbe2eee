// SPDX-License-Identifier: Apache-2.0
// Every flag of horovodrun, in one table: it drives the parser of the command line, the config
// file, the variables that ranks get, the help and docs/horovodrun.md, so none can forget a flag.
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

// What the flags have said. A field that is not set was not mentioned, on the command line or in
// the config file.
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

// Of each group the user gives one flag at most.
enum class ExclusiveGroup { kNone, kHosts, kController, kTimestamps };

// What follows a flag.
struct FlagValue {
  std::string_view name = "";  // stands for it in the help; a switch has none
  double least = 0;            // of numbers
  double most = std::numeric_limits<int>::max();
  bool (*accepts)(std::string_view) = nullptr;  // of texts that are not free
  std::string_view accepted = "";               // what `accepts` does, in words
};

struct FlagExtras {
  std::string_view off = "";                                  // names that turn a switch off
  std::string_view hidden_names = "", hidden_off_names = "";  // names that are known and not shown
  ExclusiveGroup exclusive = ExclusiveGroup::kNone;
  std::string_view config_key = "";  // "params.cycle_time_ms"
  bool config_inverted = false;      // its yes is our no
  std::string_view variable = "";    // what the ranks get
  int factor = 1;                    // of the value in `variable`
  std::string_view needs = "";       // the flag without which this one writes nothing
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
// The flag with this name, which has to be there.
const Flag& flag_named(std::string_view name);
// "a, b" as "a" and "b".
std::vector<std::string_view> names_in(std::string_view names);

// How the flag is called in messages: the name that comes first.
std::string_view name_of(const Flag& flag);
bool is_switch(const Flag& flag);
// How many words follow the flag on the command line.
int words_after(const Flag& flag);
// "a whole number from 1", and so on.
std::string accepted_by(const Flag& flag);

// Puts the value in its field. The message of a failure is the value and what is accepted; the
// caller says where it comes from.
Status read_value(const Flag& flag, std::string_view text, Options& options);
bool is_set(const Flag& flag, const Options& options);
// The field as the value of a variable; none when it is not set.
std::optional<std::string> value_text(const Flag& flag, const Options& options);
// Whether the flag that this one needs is there and not turned off; true if it needs none.
bool has_effect(const Flag& flag, const Options& options);

}  // namespace hvd::launcher
