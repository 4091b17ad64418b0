//! Who calls: the agent behind a bearer key.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};

use crate::api::Api;
use crate::api::problem::Problem;
use crate::people::Agent;
use crate::requests::sha256_hex;
use crate::store;

/// The agent that calls.
pub struct Caller(pub Agent);

impl FromRequestParts<Api> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
        let header = parts.headers.get(header::AUTHORIZATION);
        let header = header.ok_or_else(|| refused("an agent key is needed: Bearer …"))?;
        let header = header.to_str().unwrap_or_default();
        let key = header
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, key)| key.trim())
            .filter(|key| !key.is_empty())
            .ok_or_else(|| refused("an agent key is needed: Bearer …"))?;
        // The key has 256 random bits and is looked up by its hash, so the time
        // that takes says nothing about any key.
        let hash = sha256_hex(key.as_bytes());
        let agent = Box::pin(async {
            store::agents::find_by_key_hash(&mut api.store.read().await?, &hash).await
        })
        .await?;
        agent.map(Self).ok_or_else(|| refused("this key belongs to no agent"))
    }
}
