//! A look at the receiver before anything is sent to it.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use pillarbox_message::Finding;
use tower_layer::Layer;
use tower_service::Service;

use crate::sink::client;
use crate::verdict::{cause, only_private, sources};
use crate::{HttpSink, PrivateAddresses};

impl HttpSink {
    /// What its user should know: whether the receiver's name resolves to an address that is allowed, whether a
    /// connection can be made, TLS included, and which events are larger than the sink sends. No request is sent.
    pub async fn check(&self) -> Vec<Finding> {
        let (origin, options) = (self.address.origin(), &self.options);
        let mut findings: Vec<Finding> = self.connect().await.err().into_iter().collect();
        if self.address.is_plain() && options.private == PrivateAddresses::Refused {
            findings.push(Finding::warning(format!(
                "`{origin}` is without TLS: whoever is on the way reads events and headers; use `https://`"
            )));
        }
        let largest = self.messages.largest();
        if options.max_body < largest {
            findings.push(Finding::warning(format!(
                "bodies over {} bytes are rejected (`max_body`), and the largest event may come to {largest}",
                options.max_body
            )));
        }
        findings
    }

    /// Makes a connection as for a request, and leaves it at that.
    async fn connect(&self) -> Result<(), Finding> {
        let origin = self.address.origin();
        let unusable = |why: String| Finding::unreachable(format!("cannot connect to `{origin}`: {why}"));
        let client = client(&self.options).connector_layer(UpToConnection).build();
        let client = client.map_err(|error| unusable(cause(&error)))?;
        let root = self.address.root().ok_or_else(|| unusable("its URL cannot be read".to_owned()))?;
        let Err(error) = client.head(root).send().await else { return Ok(()) };
        if sources(&error).any(|source| source.is::<Connected>()) {
            return Ok(());
        }
        Err(match only_private(&error) {
            Some(refused) => Finding::refusal(refused.to_string()),
            None => unusable(cause(&error)),
        })
    }
}

/// Lets a request come as far as the connection, and no further.
#[derive(Clone, Copy, Debug)]
struct UpToConnection;

#[derive(Clone, Debug)]
struct Stopping<S>(S);

/// The connection was made.
#[derive(Debug, thiserror::Error)]
#[error("connected")]
struct Connected;

impl<S> Layer<S> for UpToConnection {
    type Service = Stopping<S>;

    fn layer(&self, connector: S) -> Stopping<S> {
        Stopping(connector)
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

impl<S, R> Service<R> for Stopping<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, place: R) -> Self::Future {
        let connecting = self.0.call(place);
        Box::pin(async move {
            connecting.await?;
            Err(Connected.into())
        })
    }
}
