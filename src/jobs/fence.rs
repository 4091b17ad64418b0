//! The fence around what the gateway calls: an address that an agent gives never
//! makes it reach into a private network, by no spelling, redirect or name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Bytes of an address at most.
const MAX_URL: usize = 2_048;

/// Networks that are not the public internet.
const PRIVATE: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];

/// Why an address is not called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It can't be read as an address.
    #[error("it is no absolute http or https URL of at most 2,048 bytes")]
    NotAUrl,
    /// It holds a user name, a password or a fragment.
    #[error("it must not hold a user name, a password or a fragment")]
    Extras,
    /// It is not encrypted, and not inside an allowed network.
    #[error("it must be https; http is for networks in webhooks.allow_nets only")]
    NotEncrypted,
    /// It lies in a private network that the operator has not allowed.
    #[error("it lies in a private network; the operator can allow it in webhooks.allow_nets")]
    Private,
}

/// The fence, and the clients that can't get over it.
#[derive(Clone)]
pub struct Fence {
    allowed: Arc<[IpNet]>,
    encrypted: reqwest::Client,
    inside: reqwest::Client,
}

impl Fence {
    /// A fence with a gate for each of the operator's own networks.
    ///
    /// # Errors
    ///
    /// When the TLS library can't start.
    pub fn new(allowed: &[IpNet]) -> Result<Self, reqwest::Error> {
        let allowed: Arc<[IpNet]> = allowed.into();
        let client = |only_allowed: bool| {
            reqwest::Client::builder()
                .user_agent(concat!("sayso/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .https_only(!only_allowed)
                .connect_timeout(Duration::from_secs(3))
                .timeout(Duration::from_secs(15))
                .pool_idle_timeout(Duration::from_secs(30))
                .pool_max_idle_per_host(2)
                .dns_resolver(Arc::new(Resolver { allowed: Arc::clone(&allowed), only_allowed }))
                .build()
        };
        Ok(Self { encrypted: client(false)?, inside: client(true)?, allowed })
    }

    /// Whether the address may be called at all. A name is looked up only when
    /// it is called, and judged then.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn check(&self, text: &str) -> Result<Url, Refused> {
        if text.len() > MAX_URL {
            return Err(Refused::NotAUrl);
        }
        let url = Url::parse(text).map_err(|_| Refused::NotAUrl)?;
        let is_encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(Refused::NotAUrl),
        };
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(Refused::Extras);
        }
        if !is_encrypted && self.allowed.is_empty() {
            return Err(Refused::NotEncrypted);
        }
        let address = match url.host() {
            Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
            Some(Host::Domain(name)) if name.trim_end_matches('.').is_empty() => {
                return Err(Refused::NotAUrl);
            }
            Some(Host::Domain(_)) => None,
            None => return Err(Refused::NotAUrl),
        };
        match address {
            Some(ip) if !may_reach(ip, &self.allowed, !is_encrypted) => Err(Refused::Private),
            _ => Ok(url),
        }
    }

    /// The client for an address that [`Fence::check`] let pass.
    pub fn client(&self, url: &Url) -> &reqwest::Client {
        if url.scheme() == "https" { &self.encrypted } else { &self.inside }
    }
}

/// Whether a connection to `ip` may be opened.
fn may_reach(ip: IpAddr, allowed: &[IpNet], only_allowed: bool) -> bool {
    let ip = ip.to_canonical();
    allowed.iter().any(|net| net.contains(&ip)) || (!only_allowed && is_public(ip))
}

fn is_public(ip: IpAddr) -> bool {
    !PRIVATE.iter().any(|net| match ip {
        IpAddr::V4(ip) => net.parse::<Ipv4Net>().is_ok_and(|net| net.contains(&ip)),
        IpAddr::V6(ip) => net.parse::<Ipv6Net>().is_ok_and(|net| net.contains(&ip)),
    })
}

/// Looks a name up once and lets only reachable addresses through; the
/// connection is made to these, so a second look-up can't give others.
struct Resolver {
    allowed: Arc<[IpNet]>,
    only_allowed: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (allowed, only_allowed) = (Arc::clone(&self.allowed), self.only_allowed);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let passed: Vec<SocketAddr> =
                found.filter(|at| may_reach(at.ip(), &allowed, only_allowed)).collect();
            if passed.is_empty() {
                return Err(Box::new(Refused::Private) as Box<dyn std::error::Error + Send + Sync>);
            }
            Ok(Box::new(passed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(nets: &[&str]) -> Fence {
        let nets: Vec<IpNet> = nets.iter().map(|net| net.parse().unwrap()).collect();
        Fence::new(&nets).unwrap()
    }

    #[test]
    fn no_spelling_of_a_private_address_gets_through() {
        let fence = fence(&[]);
        for text in [
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://2130706433/x",
            "https://0x7f000001/x",
            "https://0177.0.0.1/x",
            "https://0/x",
            "https://10.1.2.3/x",
            "https://172.31.255.255/",
            "https://192.168.0.1:8443/",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/",
            "https://198.18.0.1/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "https://[::1]/x",
            "https://[::]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://[::127.0.0.1]/x",
            "https://[fe80::1]/x",
            "https://[fd00::1]/x",
            "https://[fec0::1]/x",
            "https://[64:ff9b::7f00:1]/x",
            "https://[2002:7f00:1::]/x",
            "https://[2001:0:7f00:1::]/x",
            "https://[2001:db8::1]/x",
            "https://[ff02::1]/x",
            "https://１２７.0.0.1/x",
        ] {
            assert_eq!(fence.check(text), Err(Refused::Private), "{text}");
        }
    }

    #[test]
    fn only_plain_encrypted_addresses_are_called() {
        let fence = fence(&[]);
        let long = format!("https://example.com/{}", "a".repeat(2_048));
        for (text, why) in [
            ("http://example.com/x", Refused::NotEncrypted),
            ("https://ada:pw@example.com/x", Refused::Extras),
            ("https://ada@example.com/x", Refused::Extras),
            ("https://example.com/x#y", Refused::Extras),
            ("ftp://example.com/x", Refused::NotAUrl),
            ("file:///etc/passwd", Refused::NotAUrl),
            ("example.com", Refused::NotAUrl),
            ("", Refused::NotAUrl),
            (&long, Refused::NotAUrl),
        ] {
            assert_eq!(fence.check(text).map(|_| ()), Err(why), "{text}");
        }
        assert!(fence.check("https://example.com:8443/hook?x=1").is_ok());
        assert!(fence.check("https://8.8.8.8/hook").is_ok());
    }

    #[test]
    fn the_operator_can_open_a_gate() {
        let fence = fence(&["127.0.0.0/8"]);
        assert!(fence.check("http://127.0.0.1:9000/hook").is_ok());
        assert!(fence.check("https://127.0.0.1:9000/hook").is_ok());
        assert_eq!(fence.check("http://10.0.0.1/hook").map(|_| ()), Err(Refused::Private));
        assert_eq!(fence.check("http://8.8.8.8/hook").map(|_| ()), Err(Refused::Private));
    }

    #[tokio::test]
    async fn a_name_of_a_private_address_is_refused_when_it_is_called() {
        let url = fence(&[]).check("https://localhost:9/x").unwrap();
        let error = fence(&[]).client(&url).get(url).send().await.unwrap_err();
        let chain = format!("{error:?}");
        assert!(chain.contains("Private"), "{chain}");
    }
}
