// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "launcher/plan/text.h"
#include "launcher/report.h"
#include "net/address.h"

namespace hvd::launcher {
namespace {

// Exit codes of a POSIX shell.
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

// Other programs, such as kubexec.sh, do not take the options of ssh.
bool is_ssh(const RemoteShell& shell) {
  return std::filesystem::path(shell.program).filename() == "ssh";
}

// A message of ssh and its meaning for the user. If the output contains several, the first one in
// this list is the cause.
struct Symptom {
  std::string_view words;
  std::string_view meaning;  // {} is the host
};

constexpr std::array kSymptoms = {
    Symptom{"Could not resolve hostname",
            "this name cannot be resolved: check its spelling, the name service, or ~/.ssh/config"},
    Symptom{
        "Host key verification failed",
        "ssh does not trust its host key: log in once by hand (ssh {}) and accept the key if it "
        "is the right one, or set options for host keys with --ssh-args"},
    Symptom{"REMOTE HOST IDENTIFICATION HAS CHANGED",
            "its host key has changed: if that is expected, remove the old key "
            "(ssh-keygen -R {}) and log in once by hand"},
    Symptom{"Permission denied",
            "it refuses the login: ssh needs a key that works without a password (try ssh-copy-id "
            "{}, or name the key with -i)"},
    Symptom{"Too many authentication failures",
            "it refuses the login after too many keys: name the right key with -i"},
    Symptom{"Connection refused", "no ssh server answers there: start it, or set its port with -p"},
    Symptom{"Connection timed out", "it does not answer: is it up, and does a firewall block ssh?"},
    Symptom{"Operation timed out", "it does not answer: is it up, and does a firewall block ssh?"},
    Symptom{"No route to host", "there is no network route to it: is it up, and connected?"},
    Symptom{"Network is unreachable", "there is no network route to it: is it up, and connected?"},
};

std::string cause_of(const RemoteShell& shell, const std::string& host, int status,
                     const std::string& diagnostics) {
  for (const Symptom& symptom : kSymptoms) {
    if (diagnostics.find(symptom.words) != std::string::npos) {
      return fmt::format(fmt::runtime(symptom.meaning), host);
    }
  }
  if (exit_code_of(status) == kNotFound) {
    return "horovodrun is not installed there: install the same version as here (pip install "
           "horovod), or make sure that it is in PATH for commands that ssh runs";
  }
  if (exit_code_of(status) == kNotExecutable) return "horovodrun cannot be run there";
  return fmt::format("{} ended before horovodrun started there, with {}", shell.program,
                     describe_exit(status));
}

// The path of this binary. Clusters often have the same paths on all hosts (a shared file system).
std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "horovodrun" : path.string();
}

}  // namespace

bool is_local(const std::string& host) {
  if (host == "localhost") return true;
  char name[256] = "";
  (void)::gethostname(name, sizeof(name) - 1);
  if (host == name) return true;
  const auto addresses = resolve(host, 0);
  const auto interfaces = local_interfaces({});
  if (!addresses.is_ok() || !interfaces.is_ok()) return false;
  return std::any_of(addresses->begin(), addresses->end(), [&](const Endpoint& address) {
    const std::string number = address.host();
    // Debian gives a machine's own name the address 127.0.1.1.
    return number.starts_with("127.") ||
           std::any_of(interfaces->begin(), interfaces->end(),
                       [&](const Interface& each) { return each.address.host() == number; });
  });
}

std::string agent_command(const std::string& program, const std::string& path) {
  const std::string script = fmt::format(
      "PATH=\"$PATH\":{0}; export PATH; "
      "if [ -x {1} ]; then exec {1} --agent remote; else exec horovodrun --agent remote; fi",
      quoted_for_shell(path), quoted_for_shell(program));
  // The user's login shell may be any shell: it only has to start /bin/sh.
  return "exec /bin/sh -c " + quoted_for_shell(script);
}

std::string with_standard_input(std::string script) {
  constexpr std::string_view kExec = "kubectl exec ";
  const size_t found = script.find(kExec);
  if (found == std::string::npos) return script;
  const std::string_view rest = std::string_view(script).substr(found + kExec.size());
  if (rest.starts_with("-i ") || rest.starts_with("--stdin")) return script;
  return script.insert(found + kExec.size(), "-i ");
}

std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host,
                                        const std::string& command, std::chrono::seconds timeout) {
  std::vector<std::string> words = {shell.program};
  if (is_ssh(shell)) {
    const std::string limit = fmt::format("ConnectTimeout={}", std::max<long>(timeout.count(), 1));
    // No terminal, even if the user's configuration requests one: it would modify bytes.
    words.emplace_back("-T");
    for (const std::string& option :
         {std::string("PasswordAuthentication=no"), std::string("BatchMode=yes"), limit}) {
      words.insert(words.end(), {"-o", option});
    }
    if (shell.port.has_value()) words.insert(words.end(), {"-p", std::to_string(*shell.port)});
    if (!shell.identity_file.empty()) words.insert(words.end(), {"-i", shell.identity_file});
  } else {
    std::stringstream script;
    script << std::ifstream(shell.program).rdbuf();
    const std::string changed = with_standard_input(script.str());
    if (changed != script.str()) words = {"/bin/sh", "-c", changed, shell.program};
  }
  words.insert(words.end(), shell.arguments.begin(), shell.arguments.end());
  words.insert(words.end(), {host, command});
  return words;
}

SpawnOptions agent_on(const std::string& host, bool remote, const RemoteShell& shell,
                      std::chrono::seconds timeout) {
  SpawnOptions options;
  if (!remote) {
    options.command = {"horovodrun", "--agent"};
    options.program = "/proc/self/exe";
    return options;
  }
  const char* path = std::getenv("PATH");
  const std::string command = agent_command(own_path(), path != nullptr ? path : "");
  options.command = remote_command(shell, host, command, timeout);
  options.take_stderr = true;
  // An ssh without launcher has no purpose and could hang for minutes on a dead connection.
  options.parent_death_signal = SIGTERM;
  return options;
}

std::string explain_remote(const RemoteShell& shell, const std::string& host, int status,
                           const std::string& diagnostics) {
  std::string text = cause_of(shell, host, status, diagnostics);
  for (const std::string_view line : split(trimmed(diagnostics), '\n')) {
    if (!line.empty()) text += fmt::format("\n  | {}", trimmed(line));
  }
  return text;
}

}  // namespace hvd::launcher
