//! Names to addresses, and only to those that the sink may connect to.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::PrivateAddresses;

/// Resolves for the client itself. What it connects to is what was judged here: a name that leads elsewhere a moment
/// later leads nowhere.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    pub(crate) private: PrivateAddresses,
}

/// A name that has addresses, and only such that the sink may not connect to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` has the address `{address}`, which is private; `allow_private` lets the sink connect to such addresses"
)]
pub(crate) struct OnlyPrivate {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.private.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let admitted = admitted(&private, name.as_str(), found.collect())?;
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

fn admitted(
    private: &PrivateAddresses,
    name: &str,
    found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, OnlyPrivate> {
    let (admitted, refused): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|address| private.admit(address.ip()));
    match refused.first() {
        Some(refused) if admitted.is_empty() => {
            Err(OnlyPrivate { name: name.to_owned(), address: refused.ip() })
        }
        _ => Ok(admitted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect()
    }

    /// K2: a name that has public addresses and private ones leads to the public ones.
    #[test]
    fn private_addresses_of_a_name_are_left_out() {
        let mixed = found(&["10.0.0.1", "8.8.8.8", "::1"]);

        let admitted = admitted(&PrivateAddresses::Refused, "hooks.example", mixed).unwrap();

        assert_eq!(admitted, found(&["8.8.8.8"]));
    }

    /// K2: a name that has private addresses only leads nowhere, and the answer says why.
    #[test]
    fn name_with_private_addresses_only_leads_nowhere() {
        let error = admitted(&PrivateAddresses::Refused, "hooks.example", found(&["169.254.169.254"]));

        assert_eq!(
            error.unwrap_err().to_string(),
            "`hooks.example` has the address `169.254.169.254`, which is private; `allow_private` lets the sink \
             connect to such addresses"
        );
    }
}
