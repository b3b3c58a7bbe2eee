// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hvd::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Remote, OwnNamesAreLocalAndOthersAreNot) {
  EXPECT_TRUE(is_local("localhost"));
  EXPECT_TRUE(is_local("127.0.0.1"));
  EXPECT_TRUE(is_local("127.0.1.1"));
  EXPECT_TRUE(is_local("::1"));
  EXPECT_FALSE(is_local("192.0.2.1"));
  EXPECT_FALSE(is_local("no.such.host.invalid"));
}

TEST(Remote, SshGetsTheUsersOptionsAndNoneAboutHostKeys) {
  RemoteShell shell;
  shell.port = 2222;
  shell.identity_file = "/keys/id";
  shell.arguments = {"-F", "config"};
  EXPECT_THAT(remote_command(shell, "b", "run it", std::chrono::seconds(30)),
              ElementsAre("ssh", "-T", "-o", "PasswordAuthentication=no", "-o", "BatchMode=yes",
                          "-o", "ConnectTimeout=30", "-p", "2222", "-i", "/keys/id", "-F", "config",
                          "b", "run it"));
}

TEST(Remote, AnotherShellGetsHostAndCommandAlone) {
  RemoteShell shell;
  shell.program = "/no/such/helper";
  EXPECT_THAT(remote_command(shell, "b", "run it", std::chrono::seconds(30)),
              ElementsAre("/no/such/helper", "b", "run it"));
}

TEST(Remote, TheKubernetesHelperForwardsStandardInput) {
  const std::string helper =
      "#!/bin/sh\nPOD=$1\nshift\n/opt/kube/kubectl exec ${POD} -- /bin/sh -c \"$*\"\n";
  EXPECT_THAT(with_standard_input(helper), HasSubstr("kubectl exec -i ${POD} --"));
  EXPECT_EQ(with_standard_input(helper), with_standard_input(with_standard_input(helper)));
  EXPECT_EQ("#!/bin/sh\nrsh \"$@\"\n", with_standard_input("#!/bin/sh\nrsh \"$@\"\n"));
}

TEST(Remote, AnAgentIsSearchedInBothPaths) {
  const std::filesystem::path folder = ::testing::TempDir() + "it's my bin";
  std::filesystem::create_directory(folder);
  const std::string program = folder / "horovodrun";
  std::ofstream(program) << "#!/bin/sh\n[ \"$*\" = '--agent remote' ] && exit 3\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EXPECT_EQ(3 << 8, std::system(agent_command(program, "/nowhere").c_str()));
  EXPECT_EQ(3 << 8, std::system(agent_command("/no/such/horovodrun", folder).c_str()));
  std::filesystem::remove_all(folder);
  const std::string command = agent_command("/no/such/horovodrun", "/nowhere");
  EXPECT_EQ(127 << 8, std::system(("PATH=/none " + command.substr(5) + " 2>/dev/null").c_str()));
}

std::string explain(const std::string& diagnostics, int code = 255) {
  return explain_remote({}, "b", code << 8, diagnostics);
}

TEST(Remote, MessagesOfSshAreExplained) {
  EXPECT_THAT(explain("ssh: Could not resolve hostname b: Name or service not known\r\n"),
              HasSubstr("check its spelling"));
  EXPECT_THAT(explain("No ECDSA host key is known for b\nHost key verification failed.\n"),
              HasSubstr("(ssh b)"));
  EXPECT_THAT(explain("me@b: Permission denied (publickey).\n"), HasSubstr("ssh-copy-id b"));
  EXPECT_THAT(explain("ssh: connect to host b port 22: Connection refused\n"), HasSubstr("-p"));
  EXPECT_THAT(explain("ssh: connect to host b port 22: Connection timed out\n"),
              HasSubstr("firewall"));
  EXPECT_THAT(explain("sh: 1: exec: horovodrun: not found\n", 127), HasSubstr("not installed"));
  EXPECT_THAT(explain("kex_exchange_identification: read: Connection reset\n"),
              HasSubstr("ssh ended before horovodrun started there, with exit code 255"));
}

TEST(Remote, MessagesOfSshAreQuoted) {
  EXPECT_THAT(explain("line one\r\nline two\r\n"), HasSubstr("\n  | line one\n  | line two"));
  EXPECT_THAT(explain(""), Not(HasSubstr("|")));
}

}  // namespace
}  // namespace hvd::launcher
