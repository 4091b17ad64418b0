//! Strict JSON: what two readers could read differently is refused.

use std::fmt;

use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::api::problem::Problem;

/// Bytes of a body at most.
pub const MAX_BODY: usize = 256 * 1024;

/// A body that is one JSON value of type `T`, with the digest of what was sent.
pub struct StrictJson<T> {
    /// What it says.
    pub value: T,
    /// The SHA-256 of its canonical form, in hexadecimal digits.
    pub digest: String,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for StrictJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if essence != "application/json" {
            let detail = "the body must be application/json";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Problem::new(status, "unsupported_media_type", detail));
        }
        let bytes = axum::body::to_bytes(request.into_body(), MAX_BODY).await.map_err(|_| {
            let detail = format!("the body must arrive whole and have at most {MAX_BODY} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
        })?;
        read(&bytes)
    }
}

/// Like [`StrictJson`], but nothing at all stands for the default.
pub struct OptionalJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if axum::body::HttpBody::is_end_stream(request.body()) {
            return Ok(Self(T::default()));
        }
        StrictJson::from_request(request, state).await.map(|body| Self(body.value))
    }
}

#[expect(clippy::result_large_err, reason = "the error is the answer and is sent at once")]
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<StrictJson<T>, Problem> {
    let value =
        parse(bytes).map_err(|why| Problem::new(StatusCode::BAD_REQUEST, "invalid_json", why))?;
    if !value.is_object() {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(Problem::new(status, "invalid_field", "the body must be a JSON object"));
    }
    let digest = crate::requests::sha256_hex(crate::requests::canonical(&value).as_bytes());
    let value = serde_path_to_error::deserialize(value).map_err(|error| of_shape(&error))?;
    Ok(StrictJson { value, digest })
}

fn of_shape(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let pointer: String = error
        .path()
        .iter()
        .map(|part| match part {
            serde_path_to_error::Segment::Seq { index } => format!("/{index}"),
            serde_path_to_error::Segment::Map { key } => format!("/{key}"),
            serde_path_to_error::Segment::Enum { variant } => format!("/{variant}"),
            serde_path_to_error::Segment::Unknown => String::new(),
        })
        .collect();
    let detail = error.inner().to_string().replace("expected u64", "expected a whole number");
    let code = if detail.starts_with("unknown field") {
        "unknown_field"
    } else if detail.starts_with("missing field") {
        "missing_field"
    } else {
        "invalid_field"
    };
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail).at(&pointer)
}

/// Reads one JSON value; repeated members and anything after it are errors.
/// Depth is limited by the parser to 128.
///
/// # Errors
///
/// What is wrong, in words.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader).map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        // A whole number that only fits a float was rounded already.
        if number.fract() == 0.0 && number.abs() > 9_007_199_254_740_991.0 {
            return Err(E::custom("a whole number beyond 2^53 - 1 must be sent as text"));
        }
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            if members.contains_key(&key) {
                return Err(A::Error::custom(format!("the member `{key}` stands there twice")));
            }
            let value = from.next_value_seed(self)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_read_in_two_ways_is_not_json_here() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":{"b":1,"b":1}}"#,
            "{} {}",
            "{",
            "",
            "NaN",
            "1e400",
            "123456789012345678901234567890",
            &deep,
            "{\"a\":\"\u{0}\"}",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn plain_json_is_read_as_it_is() {
        let text = r#"{"a":[1,-2,2.5,"x",null,true],"b":{}}"#;
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
    }
}
