// SPDX-License-Identifier: Apache-2.0
#include "net/address.h"

#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

TEST(Endpoint, TextFormSurvivesTheRoundTrip) {
  for (const char* text :
       {"1.2.3.4:80", "0.0.0.0:0", "[::1]:65535", "[fd00::2:3]:1", "[::ffff:1.2.3.4]:5"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_OK(endpoint);
    EXPECT_EQ(endpoint->to_string(), text);
    EXPECT_EQ(*Endpoint::parse(endpoint->to_string()), *endpoint);
  }
  EXPECT_EQ(Endpoint::loopback(80).to_string(), "127.0.0.1:80");
  EXPECT_EQ(Endpoint::loopback_v6(80), *Endpoint::parse("[::1]:80"));
  EXPECT_FALSE(*Endpoint::parse("1.2.3.4:80") == *Endpoint::parse("1.2.3.4:81"));
  EXPECT_FALSE(Endpoint::any() == Endpoint::any_v6());
}

TEST(Endpoint, MalformedTextIsRefusedWithTheTextAndTheForm) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {""sv, ":"sv, "80"sv, "1.2.3.4"sv, "1.2.3.4:"sv, "1.2.3.4:65536"sv, "1.2.3.4:-1"sv,
        "1.2.3.4:+1"sv, "1.2.3.4: 1"sv, "1.2.3.4:8x"sv, "1.2.3:80"sv, "host:80"sv, "::1:80"sv,
        "[::1]80"sv, "[]:80"sv, "[1.2.3.4]:80"sv, "[fe80::1%eth0]:80"sv, "[::1:80"sv,
        "1.2.3.4\0:80"sv}) {
    const auto endpoint = Endpoint::parse(text);
    SCOPED_TRACE(text);
    EXPECT_CODE(StatusCode::kInvalidArgument, endpoint);
    EXPECT_THAT(endpoint.status().message(), HasSubstr("write 1.2.3.4:80"));
  }
}

TEST(Endpoint, MappedAddressIsTheSameAsPlainIPv4) {
  EXPECT_EQ(Endpoint::parse("[::ffff:1.2.3.4]:5")->unmapped(), *Endpoint::parse("1.2.3.4:5"));
  EXPECT_EQ(Endpoint::loopback_v6(5).unmapped(), Endpoint::loopback_v6(5));
}

TEST(Resolve, NumbersNeedNoNameServerAndUnknownNamesAreNamed) {
  const auto numeric = resolve("127.0.0.1:7");
  ASSERT_OK(numeric);
  EXPECT_THAT(*numeric, ::testing::ElementsAre(Endpoint::loopback(7)));
  const auto v6 = resolve("::1", 7);
  ASSERT_OK(v6);
  EXPECT_THAT(*v6, ::testing::ElementsAre(Endpoint::loopback_v6(7)));
  const auto unknown = resolve("no.such.host.invalid:7");
  EXPECT_CODE(StatusCode::kNotFound, unknown);
  EXPECT_THAT(unknown.status().message(), HasSubstr("no.such.host.invalid"));
}

TEST(LocalInterfaces, LoopbackIsFoundAndUnknownNameListsTheKnown) {
  const auto all = local_interfaces({});
  ASSERT_OK(all);
  std::string loopback;
  for (const Interface& interface : *all) {
    if (interface.address == Endpoint::loopback()) {
      EXPECT_TRUE(interface.loopback);
      EXPECT_EQ(interface.prefix_length, 8);
      loopback = interface.name;
    }
  }
  ASSERT_NE(loopback, "");
  const auto only = local_interfaces({loopback});
  ASSERT_OK(only);
  for (const Interface& interface : *only) EXPECT_EQ(interface.name, loopback);
  const auto unknown = local_interfaces({loopback, "nosuch7"});
  EXPECT_CODE(StatusCode::kNotFound, unknown);
  EXPECT_THAT(unknown.status().message(), HasSubstr("\"nosuch7\""));
  EXPECT_THAT(unknown.status().message(), HasSubstr(loopback));
}

}  // namespace
}  // namespace hvd
