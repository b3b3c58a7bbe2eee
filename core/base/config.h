// SPDX-License-Identifier: Apache-2.0
// All settings, as one value that is read once when a job starts and then passed to the parts that
// need it. No other code of the project reads settings from the environment; Python calls
// setting_value() through hvd_setting. The one exception is
// python/horovod/runner/common/util/env.py, which looks before init whether a launcher has set rank
// and size.
//
// A malformed value is an error that names the variable, the value and what is accepted; all
// malformed variables are reported together. An empty value counts as unset. The tables behind
// settings() and ignored_settings() drive both the parser and docs/settings.md, so neither can omit
// a variable.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/log.h"
#include "base/status.h"

namespace hvd {

// A secret in text form. Only text() returns it: there is no formatter and no stream operator.
class SecretText {
 public:
  SecretText() = default;
  explicit SecretText(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool operator==(const SecretText&) const = default;

 private:
  std::string text_;
};

// A plain value: any thread may read it. The comments of the fields are in docs/settings.md.
struct Config {
  using Seconds = std::chrono::duration<double>;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  // Protection of tensors between hosts without TLS.
  enum class WireProtection { kNone, kTags };

  // Returns the value of a variable, or null if it is unset; as std::getenv.
  using Lookup = FunctionRef<const char*(const char* variable)>;

  // kInvalidArgument with all malformed variables in the message.
  static Result<Config> from(Lookup lookup);
  // From the environment of this process; writes `warnings` to the log. `secret`, unless empty, is
  // used instead of the secret in the environment. Also calls check_timeline() if this rank writes
  // a timeline.
  static Result<Config> from_environment(const SecretText& secret = {});
  // Whether the file of the timeline can be written; kIo with the name of the variable if not. A
  // relative path is relative to `directory`, or to the working directory if that is empty.
  Status check_timeline(const std::string& directory = "") const;

  // Engine.
  int64_t fusion_threshold = 128 << 20;
  Milliseconds cycle_time{0};
  // More tensors than any model has. It limits the memory of programs that use a new name for every
  // call to 20 MB, at about 600 bytes for each name.
  static constexpr int kDefaultCacheCapacity = 32768;
  int cache_capacity = kDefaultCacheCapacity;
  bool hierarchical_allreduce = false;
  bool hierarchical_allgather = false;
  std::string allreduce_algorithm;
  bool deterministic = false;
  bool disable_group_fusion = false;
  bool dynamic_process_sets = false;
  std::vector<int> thread_affinity;
  bool elastic = false;

  // Autotune.
  bool autotune = false;
  std::string autotune_log;
  int autotune_warmup_samples = 3;
  int autotune_steps_per_sample = 10;
  int autotune_bayes_opt_max_samples = 20;
  double autotune_gaussian_process_noise = 0.8;

  // Timeline, stall check, log.
  std::string timeline;
  bool timeline_mark_cycles = false;
  bool timeline_all_ranks = false;
  bool stall_check_disable = false;
  Seconds stall_check_time{60};
  Seconds stall_shutdown_time{0};
  LogLevel log_level = LogLevel::kWarning;
  bool log_hide_time = false;

  // Rank and network.
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  std::string hostname = "localhost";
  // "host:port" of the rendezvous server, or several with commas; empty for a single process.
  std::string rendezvous;
  std::vector<std::string> network_interfaces;
  Seconds timeout{30};
  Seconds heartbeat_timeout{5};
  bool shm_disable = false;
  bool tls = false;
  WireProtection wire_protection = WireProtection::kTags;
  SecretText secret_key;

  // The launcher.
  Seconds start_timeout{30};
  Seconds elastic_timeout{600};
  Seconds spark_start_timeout{600};

  // The older form of `rendezvous`, which from() fills in from these two.
  std::string rendezvous_host;
  int rendezvous_port = 0;

  // Whether an MPI launcher started this process with the same rank and size: the ranks of MPI are
  // then our ranks.
  bool started_by_mpi = false;

  // Variables that had a value. Autotune does not change settings that the user has set.
  std::vector<std::string_view> given;
  bool was_given(std::string_view variable) const;
  // Messages about values that were accepted but do not have the effect that the user expects.
  std::vector<std::string> warnings;

  bool operator==(const Config&) const = default;
};

// One variable. Defaults and accepted values are written as a user would write them.
struct Setting {
  const char* variable;
  std::string_view section;
  std::string_view default_text;  // empty: unset
  std::string_view accepted;
  std::string_view documentation;
  struct Field {
    // Writes the value to its field; returns false if it is malformed.
    bool (*read)(std::string_view text, Config& config);
    std::string (*show)(const Config& config);
  };
  Field field;

  bool read(std::string_view text, Config& config) const { return field.read(text, config); }
};

std::span<const Setting> settings();

// A variable of Horovod that this implementation accepts and ignores, so that scripts written for
// Horovod start unchanged. No field of Config holds its value: from() checks it like any other and
// then drops it. `default_text` and `accepted` are as in Setting.
struct IgnoredSetting {
  const char* variable;
  std::string_view default_text;
  std::string_view accepted;
  std::string_view meaning;  // what the variable does in Horovod
  std::string_view reason;   // why it has no effect here
  // The value in the form that setting_value() returns; none if `text` is malformed.
  std::optional<std::string> (*normalized)(std::string_view text);
};

std::span<const IgnoredSetting> ignored_settings();

// Removes the job's secret from the environment of this process and returns it, so that programs
// which this process starts do not receive it. Empty if there is none; it is not checked.
SecretText take_secret_from_environment();

// The value of one setting as text: a switch is "1" or "0", a list has commas, and a setting that
// is not set has its default. It reads the whole environment of this process, because a setting may
// have an older name or come from another launcher. kNotFound if there is no such setting;
// kInvalidArgument as Config::from, and for the secret, which is not shown.
Result<std::string> setting_value(std::string_view variable);
// The same for a text that a caller wants to use as the value of this variable.
Result<std::string> setting_value(std::string_view variable, std::string_view text);

// The text of docs/settings.md.
std::string settings_page();

}  // namespace hvd
