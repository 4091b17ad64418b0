//! Random secrets, and how they are kept: the secret is shown once, its hash is
//! stored. They have 256 random bits, so a plain hash is enough.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rand::RngExt;

use crate::people::WebhookSecret;
use crate::requests::sha256_hex;

/// A new secret of 43 URL-safe characters.
pub fn token() -> String {
    let bytes: [u8; 32] = rand::rng().random();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A new agent key.
pub fn agent_key() -> String {
    format!("sayso_{}", token())
}

/// A new secret for signing callbacks: `whsec_` and base64 of 32 bytes.
pub fn webhook_secret() -> WebhookSecret {
    let bytes: [u8; 32] = rand::rng().random();
    WebhookSecret::new(format!("whsec_{}", STANDARD.encode(bytes)))
}

/// What is stored of a secret.
pub fn hash(secret: &str) -> String {
    sha256_hex(secret.as_bytes())
}
