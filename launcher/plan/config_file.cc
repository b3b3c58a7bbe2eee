// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

// `key` is "section.name". Null if no flag has it.
const Flag* flag_of_key(std::string_view key) {
  for (const Flag& flag : flags()) {
    if (flag.extras.config_key == key) return &flag;
  }
  return nullptr;
}

bool is_section(std::string_view name) {
  for (const Flag& flag : flags()) {
    const std::string_view key = flag.extras.config_key;
    if (key.substr(0, key.find('.')) == name && !name.empty()) return true;
  }
  return false;
}

// Walks the two levels of the file, sections and keys. References must outlive it.
class Applier {
 public:
  Applier(const std::string& file, Options& options, std::vector<std::string>& warnings)
      : file_(file), given_(options), options_(options), warnings_(warnings) {}

  Status apply(const YAML::Node& root) {
    if (root.IsNull()) return Status::ok();
    if (!root.IsMap()) return wrong(root, "the file", "sections with keys");
    for (const auto& entry : root) {
      const std::string name = entry.first.Scalar();
      const YAML::Node& node = entry.second;
      if (name == "controller") {
        HVD_TRY(take_controller(node));
      } else if (!is_section(name)) {
        warn(entry.first, name);
      } else if (node.IsMap()) {
        HVD_TRY(take_section(name, node));
      } else if (!node.IsNull()) {
        return wrong(node, name, "a section with keys");
      }
    }
    return Status::ok();
  }

 private:
  // A key without a value (null) leaves the flag unset.
  Status take_section(const std::string& section, const YAML::Node& map) {
    for (const auto& entry : map) {
      const std::string key = fmt::format("{}.{}", section, entry.first.Scalar());
      const Flag* flag = flag_of_key(key);
      const YAML::Node& node = entry.second;
      if (flag == nullptr) {
        warn(entry.first, key);
      } else if (node.IsNull()) {
        continue;
      } else if (!node.IsScalar()) {
        return wrong(node, key, accepted_by(*flag));
      } else {
        HVD_TRY(take(*flag, key, node));
      }
    }
    return Status::ok();
  }

  // Check a value even if the command line overrides it: the error would appear in the next run.
  Status take(const Flag& flag, const std::string& key, const YAML::Node& node) {
    Options read;
    if (const Status status = read_value(flag, node.Scalar(), read); !status.is_ok()) {
      return status.with_context(fmt::format("{}: {}", place(node), key));
    }
    if (is_set(flag, given_)) return Status::ok();
    if (!flag.extras.config_inverted) return read_value(flag, node.Scalar(), options_);
    return read_value(flag, value_text(flag, read) == "1" ? "false" : "true", options_);
  }

  // The only key outside a section. It selects one of three flags, so any of them on the command
  // line wins.
  Status take_controller(const YAML::Node& node) {
    const std::string word = node.IsScalar() ? lower_case(node.Scalar()) : "";
    if (node.IsNull()) return Status::ok();
    if (word != "gloo" && word != "mpi") return wrong(node, "controller", "gloo or mpi");
    if (given_.use_gloo || given_.use_mpi || given_.use_jsrun) return Status::ok();
    (word == "gloo" ? options_.use_gloo : options_.use_mpi) = true;
    return Status::ok();
  }

  // "file:line", with lines from 1.
  std::string place(const YAML::Node& node) const {
    return fmt::format("{}:{}", file_, node.Mark().line + 1);
  }

  Status wrong(const YAML::Node& node, std::string_view what, std::string_view accepted) const {
    const std::string value = node.IsScalar() ? fmt::format(": \"{}\"", node.Scalar()) : "";
    return invalid_argument(
        fmt::format("{}: {}{}: accepted is {}", place(node), what, value, accepted));
  }

  void warn(const YAML::Node& node, const std::string& key) {
    warnings_.push_back(
        fmt::format("{}: {}: there is no such key; it is ignored", place(node), key));
  }

  const std::string& file_;
  const Options given_;  // by the command line
  Options& options_;
  std::vector<std::string>& warnings_;
};

}  // namespace

Status apply_config_file(std::string_view text, const std::string& file, Options& options,
                         std::vector<std::string>& warnings) {
  try {
    return Applier(file, options, warnings).apply(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    return invalid_argument(
        fmt::format("{}:{}: not YAML: {}", file, error.mark.line + 1, error.msg));
  }
}

}  // namespace hvd::launcher
