//! Addresses that only we can reach, and that a webhook must not reach through us.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Network;

/// Which private addresses a sink may connect to.
///
/// Private is what is not on the public internet: loopback, private and shared networks, link-local ones (where clouds
/// answer with credentials), multicast, reserved ones, and the forms that these have in IPv6. Whoever may choose the
/// URL of a webhook, or the name that it resolves to, would otherwise reach whatever this process can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrivateAddresses {
    /// None: the default.
    #[default]
    Refused,
    /// Those in these networks.
    In(Vec<Network>),
    /// All of them: for receivers of one's own only.
    Allowed,
}

impl PrivateAddresses {
    /// Whether the sink may connect to this address.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        let inner = innermost(address);
        !is_private(inner)
            || match self {
                Self::Refused => false,
                Self::In(networks) => {
                    networks.iter().any(|network| network.contains(address) || network.contains(inner))
                }
                Self::Allowed => true,
            }
    }
}

/// The address that is meant in the end: IPv4 in its various forms in IPv6 leads to IPv4.
fn innermost(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([first, second], [third, fourth]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(first, second, third, fourth))
    };
    match [a, b, c, d, e, f] {
        // `::` and `::1` are what they are.
        [0, 0, 0, 0, 0, 0] if (g, h) != (0, 0) && v6 != Ipv6Addr::LOCALHOST => v4(g, h),
        // Mapped, translated, NAT64, and 6to4, which has it in front.
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

fn is_private(address: IpAddr) -> bool {
    PRIVATE.iter().any(|network| network.contains(address))
}

/// What the registries of special addresses list as not reachable from everywhere.
const PRIVATE: [Network; 25] = [
    Network::v4([0, 0, 0, 0], 8),
    Network::v4([10, 0, 0, 0], 8),
    Network::v4([100, 64, 0, 0], 10),
    Network::v4([127, 0, 0, 0], 8),
    Network::v4([169, 254, 0, 0], 16),
    Network::v4([172, 16, 0, 0], 12),
    Network::v4([192, 0, 0, 0], 24),
    Network::v4([192, 0, 2, 0], 24),
    Network::v4([192, 88, 99, 0], 24),
    Network::v4([192, 168, 0, 0], 16),
    Network::v4([198, 18, 0, 0], 15),
    Network::v4([198, 51, 100, 0], 24),
    Network::v4([203, 0, 113, 0], 24),
    // Multicast, reserved, and broadcast.
    Network::v4([224, 0, 0, 0], 3),
    // Unspecified, loopback.
    Network::v6([0; 8], 127),
    // NAT64 within a network.
    Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    Network::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    // Teredo and what else is for protocols.
    Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    Network::v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16),
    Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    Network::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
    Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(private: &PrivateAddresses, address: &str) -> bool {
        private.admit(address.parse().unwrap())
    }

    /// K2: no form of a private address passes.
    #[test]
    fn private_addresses_are_refused_in_every_form() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::808:808",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!admits(&PrivateAddresses::Refused, private), "{private}");
            assert!(admits(&PrivateAddresses::Allowed, private), "{private}");
        }
    }

    /// K2: what is public passes, in every form.
    #[test]
    fn public_addresses_are_admitted() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2606:4700:4700::1111",
            "2a00:1450:4001:82a::200e",
        ] {
            assert!(admits(&PrivateAddresses::Refused, public), "{public}");
        }
    }

    /// K2: some networks can be allowed, and no others with them.
    #[test]
    fn allowed_networks_are_admitted_alone() {
        let private = PrivateAddresses::In(vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()]);

        for admitted in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "8.8.8.8"] {
            assert!(admits(&private, admitted), "{admitted}");
        }
        for refused in ["10.2.0.1", "127.0.0.1", "fc00::1", "::ffff:10.2.0.1"] {
            assert!(!admits(&private, refused), "{refused}");
        }
    }
}
