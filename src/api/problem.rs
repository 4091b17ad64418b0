//! Errors as the API tells them: RFC 9457 problem documents with a stable code.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::decisions::OpenError;
use crate::requests::check::Invalid;
use crate::store::StoreError;
use crate::wire::{OutcomeResource, RequestResource};

/// A problem document.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Problem {
    /// `urn:sayso:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable word for what is wrong.
    pub code: String,
    /// What is wrong, in words.
    pub detail: String,
    /// Where in the body, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// How the request ended, if that is what is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeResource>,
    /// The request's status, if that is what is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_status: Option<String>,
    /// Seconds to wait before trying again; also in `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem of that status and code.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:sayso:problem:{code}"),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            code: code.to_owned(),
            detail: detail.into(),
            pointer: None,
            outcome: None,
            request_status: None,
            retry_after: None,
        }
    }

    /// There is no such thing for this caller.
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here for this key")
    }

    /// The same, at a place in the body.
    #[must_use]
    pub fn at(self, pointer: &str) -> Self {
        Self { pointer: Some(pointer.to_owned()), ..self }
    }

    /// The same, to be tried again later.
    #[must_use]
    pub fn later(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The request has ended.
    pub fn ended(resource: RequestResource) -> Self {
        Self {
            outcome: resource.outcome,
            request_status: Some(resource.status),
            ..Self::new(StatusCode::CONFLICT, "already_ended", "the request has already ended")
        }
    }

    /// What is wrong with opening a request.
    pub fn of_open(error: &OpenError) -> Self {
        let (status, code, pointer) = match error {
            OpenError::NoGuardian => (StatusCode::UNPROCESSABLE_ENTITY, "no_guardian", None),
            OpenError::UnknownGuardian => {
                (StatusCode::UNPROCESSABLE_ENTITY, "no_guardian", Some("/guardian"))
            }
            OpenError::TooManyOpen { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_open_requests", None)
            }
            OpenError::IdempotencyMismatch => {
                (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_mismatch", None)
            }
            OpenError::SupersedesUnknown => {
                (StatusCode::UNPROCESSABLE_ENTITY, "unknown_request", Some("/supersedes"))
            }
            OpenError::SupersedesEnded(_) => {
                (StatusCode::CONFLICT, "already_ended", Some("/supersedes"))
            }
            OpenError::DeadlinePassed => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", Some("/expires_at"))
            }
            OpenError::NoCode => (StatusCode::SERVICE_UNAVAILABLE, "no_code", None),
        };
        let problem = Self::new(status, code, error.to_string());
        let problem = match pointer {
            Some(pointer) => problem.at(pointer),
            None => problem,
        };
        match error {
            OpenError::TooManyOpen { .. } => problem.later(30),
            OpenError::NoCode => problem.later(60),
            OpenError::SupersedesEnded(request) => {
                let resource = crate::wire::resource(request, &[]);
                let status = Some(resource.status);
                Self { outcome: resource.outcome, request_status: status, ..problem }
            }
            OpenError::NoGuardian
            | OpenError::UnknownGuardian
            | OpenError::IdempotencyMismatch
            | OpenError::SupersedesUnknown
            | OpenError::DeadlinePassed => problem,
        }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, invalid.code, invalid.detail)
            .at(&invalid.pointer)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let cause = &error as &dyn std::error::Error;
        tracing::error!(error = cause, "The database failed a request");
        let detail = "the database can't answer now; nothing was acknowledged";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).later(1)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
