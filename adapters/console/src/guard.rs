//! Who may load and post what: headers that shut other sites out, and the checks
//! that a form comes from one of our own pages.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::view;

/// The cookie that carries a login.
pub(crate) const COOKIE: &str = "sayso_login";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";

/// Refuses what another site sends, and sets the headers that keep pages ours.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let refusal = refusal(request.method(), request.headers());
    let mut response = match refusal {
        Some(why) => (StatusCode::FORBIDDEN, view::message("Refused", &why)).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Why a request is refused, if it is. A form must say where it comes from, and
/// that must be here.
fn refusal(method: &Method, headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or("?").to_owned());
    let is_reading = matches!(*method, Method::GET | Method::HEAD);
    let host = text("host").unwrap_or_default();
    let site = text("sec-fetch-site");
    let is_navigation = text("sec-fetch-mode").as_deref() == Some("navigate");
    if let Some(site) = site.filter(|s| !matches!(s.as_str(), "same-origin" | "none")) {
        // Following a link from elsewhere is fine, it only reads.
        if !(is_reading && is_navigation) {
            return Some(format!("This came from another site ({site})."));
        }
    }
    match text("origin") {
        Some(origin) if !is_same_origin(&origin, &host) => Some(format!(
            "This came from {origin}, but the console is at {host}. If you reach it through a \
             proxy, set server.public_url."
        )),
        None if !is_reading => {
            Some(format!("A form must say where it comes from: an Origin of {host} is needed."))
        }
        Some(_) | None => None,
    }
}

fn is_same_origin(origin: &str, host: &str) -> bool {
    let authority = origin
        .strip_prefix("https://")
        .map(|a| a.strip_suffix(":443").unwrap_or(a))
        .or_else(|| origin.strip_prefix("http://").map(|a| a.strip_suffix(":80").unwrap_or(a)));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// The login that a request carries.
pub(crate) fn login(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
        .filter(|value| !value.is_empty())
}

/// Whether a form carries the key of its visitor; takes the same time whatever
/// it carries.
pub(crate) fn is_own_form(expected: &str, given: &str) -> bool {
    let differs = expected.len() ^ given.len();
    expected.bytes().zip(given.bytes()).fold(differs, |acc, (a, b)| acc | usize::from(a ^ b)) == 0
        && !expected.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_a_form_of_our_own_is_taken() {
        let own = [("host", "127.0.0.1:7300"), ("origin", "http://127.0.0.1:7300")];
        assert_eq!(refusal(&Method::POST, &headers(&own)), None);
        for foreign in [
            &[("host", "127.0.0.1:7300")][..],
            &[("host", "127.0.0.1:7300"), ("origin", "null")],
            &[("host", "127.0.0.1:7300"), ("origin", "https://evil.example")],
            &[("host", "127.0.0.1:7300"), ("origin", "http://127.0.0.1:9")],
            &[
                ("host", "127.0.0.1:7300"),
                ("origin", "http://127.0.0.1:7300"),
                ("sec-fetch-site", "cross-site"),
            ],
        ] {
            assert!(refusal(&Method::POST, &headers(foreign)).is_some(), "{foreign:?}");
        }
    }

    #[test]
    fn pages_may_be_linked_to_but_not_fetched_from_elsewhere() {
        let link =
            [("host", "h"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(refusal(&Method::GET, &headers(&link)), None);
        let fetch = [("host", "h"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")];
        assert!(refusal(&Method::GET, &headers(&fetch)).is_some());
        let proxied = [("host", "gate.example"), ("origin", "https://gate.example")];
        assert_eq!(refusal(&Method::POST, &headers(&proxied)), None);
    }

    #[test]
    fn a_form_key_must_be_the_visitors_own() {
        assert!(is_own_form("abc", "abc"));
        assert!(!is_own_form("abc", "abd") && !is_own_form("abc", "ab") && !is_own_form("", ""));
    }
}
