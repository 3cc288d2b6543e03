//! Networks, by address and length of the prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: `10.0.0.0/8`, `fd00::/8`, or an address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network; write it as `10.0.0.0/8`, `fd00::/8`, or as an address")]
pub struct BadNetwork(String);

impl Network {
    pub(crate) const fn v4(address: [u8; 4], prefix: u8) -> Self {
        let [a, b, c, d] = address;
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    pub(crate) const fn v6(address: [u16; 8], prefix: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = address;
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
    }

    /// Whether the address is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differs = u32::from(network) ^ u32::from(address);
                differs.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differs = u128::from(network) ^ u128::from(address);
                differs.leading_zeros() >= u32::from(self.prefix)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), |prefix| prefix.parse::<u8>().map_err(|_| bad()))?;
        if prefix > longest {
            return Err(bad());
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K2: an address belongs to a network by its first bits.
    #[test]
    fn network_contains_what_begins_alike() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "192.0.2.1", "::1"),
            ("fd00::/8", "fd12::1", "fc00::1"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{inside} in {network}");
            assert!(!network.contains(outside.parse().unwrap()), "{outside} in {network}");
        }
    }

    /// K2: what is no network is refused.
    #[test]
    fn bad_network_is_refused() {
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1", "localhost"] {
            let error = bad.parse::<Network>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` is no network; write")), "{error}");
        }
    }
}
