//! Why a request is not answered with what it asked for.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer other than success.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A field of the request makes no sense.
    Field { field: &'static str, problem: String },
    /// The body is no order at all.
    Body(JsonRejection),
    /// There is no such thing.
    Missing(String),
    /// It is not the caller's fault.
    Failed(anyhow::Error),
}

impl Refusal {
    pub(crate) fn field(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Field { field, problem: problem.into() }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            Self::Field { field, problem } => {
                let text = format!("`{field}` {problem}");
                (StatusCode::UNPROCESSABLE_ENTITY, json!({ "error": text, "field": field }))
            }
            Self::Body(rejection) => (rejection.status(), json!({ "error": rejection.body_text() })),
            Self::Missing(text) => (StatusCode::NOT_FOUND, json!({ "error": text })),
            Self::Failed(error) => {
                // What went wrong inside is for the log, not for the caller.
                tracing::error!("a request failed: {error:#}");
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    json!({ "error": "the service failed; its log says why" }),
                )
            }
        };
        (status, Json(body)).into_response()
    }
}
