// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol.h"

#include <unistd.h>

#include <array>

#include "launcher/link.h"
#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

std::vector<Message> one_of_each() {
  StartRanks start;
  start.slots = {{"b", 2, 4, 0, 2, 1, 2}, {"b", 3, 4, 1, 2, 1, 2}};
  start.command = {"python", "train.py", ""};
  start.environment = {"PATH=/bin", "EMPTY=", "LINES=a\nb"};
  start.directory = "/home/me";
  start.secret = SecretText("hush");
  start.rendezvous = {"10.0.0.1:7000", "[fd00::1]:7000"};
  start.interfaces = {"eth0"};
  start.tls = true;
  return {start,
          GrantCredit{uint64_t{1} << 40},
          StopRanks{5'000},
          Suspend{true},
          Alive{},
          AgentReady{"1.0.0", "b.example"},
          RankStarted{3, 4711},
          RankOutput{3, OutputStream::kStderr, std::string("a\0\xff\n", 4)},
          RankExited{3, -1},
          AgentWarning{"so so"},
          AgentFailed{"no such command"},
          AgentDone{},
          ProbeHost{SecretText("hush"), {"eth0"}, true},
          Findings{8, uint64_t{1} << 34, -1, {"lo 127.0.0.1/8"}, {"torch 2.1"}, {"[::1]:7"}, "no"},
          MeasurePeer{{"10.0.0.1:7000"}},
          Measurement{"10.0.0.1:7000", 50'000, uint64_t{1} << 33, "none"}};
}

TEST(Protocol, EveryMessageSurvivesTheTrip) {
  const auto messages = one_of_each();
  EXPECT_EQ(std::variant_size_v<Message>, messages.size());
  for (const Message& message : messages) {
    const auto decoded = decode(encode(message));
    ASSERT_OK(decoded);
    EXPECT_EQ(message, *decoded);
  }
}

TEST(Protocol, RefusesWhatIsCutOrTooLong) {
  for (const Message& message : one_of_each()) {
    ByteBuffer bytes = encode(message);
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode(ConstBytes(bytes).first(length)).is_ok());
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes).is_ok());
  }
  EXPECT_FALSE(decode(bytes_of("\x63")).is_ok());
}

// Both sides of a link in one process.
class LinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<std::array<int, 2>, 2> pipes{};
    for (auto& pipe : pipes) ASSERT_EQ(0, ::pipe(pipe.data()));
    to_launcher_ = pipes[0][1];
    agent_ = std::make_unique<Link>(Link::Side::kAgent, Fd(pipes[1][0]), Fd(pipes[0][1]));
    launcher_ = std::make_unique<Link>(Link::Side::kLauncher, Fd(pipes[0][0]), Fd(pipes[1][1]));
  }

  static std::vector<Message> all_of(Link& link) {
    std::vector<Message> messages;
    EXPECT_OK(link.fill());
    while (true) {
      auto next = link.next();
      EXPECT_OK(next);
      if (!next.is_ok() || !next->has_value()) return messages;
      messages.push_back(std::move(**next));
    }
  }

  int to_launcher_ = -1;
  std::unique_ptr<Link> agent_;
  std::unique_ptr<Link> launcher_;
};

TEST_F(LinkTest, MessagesArriveAfterOutputOfAShell) {
  const std::string greeting = "Welcome!\n\x01horovod";
  ASSERT_EQ(static_cast<ssize_t>(greeting.size()),
            ::write(to_launcher_, greeting.data(), greeting.size()));
  EXPECT_TRUE(all_of(*launcher_).empty());
  for (const Message& message : one_of_each()) agent_->send(message);
  agent_->flush();
  EXPECT_EQ(one_of_each(), all_of(*launcher_));
  EXPECT_EQ(greeting, launcher_->shell_output());
  launcher_->send(Alive{});
  launcher_->flush();
  EXPECT_EQ(std::vector<Message>{Alive{}}, all_of(*agent_));
}

TEST_F(LinkTest, MessagesThatTheOtherSideDoesNotReadAreKept) {
  const RankOutput much{0, OutputStream::kStdout, std::string(size_t{300} << 10, 'x')};
  agent_->send(much);
  agent_->flush();
  EXPECT_TRUE(agent_->wants_write());
  std::vector<Message> messages;
  for (int i = 0; i < 20 && messages.empty(); ++i) {
    messages = all_of(*launcher_);
    agent_->flush();
  }
  EXPECT_EQ(std::vector<Message>{much}, messages);
  EXPECT_FALSE(agent_->wants_write());
}

TEST_F(LinkTest, TheEndOfTheOtherSideIsReported) {
  agent_.reset();
  EXPECT_CODE(StatusCode::kPeerLost, launcher_->fill());
}

}  // namespace
}  // namespace hvd::launcher
