//! The HTTP server: one small task a connection. Ten thousand waiting calls are
//! ten thousand connections, so what each of them holds is what the process
//! holds.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::lifecycle::Lifecycle;

/// How long the head of a call may take to arrive, and how long a connection may
/// be idle between two calls.
const HEAD: Duration = Duration::from_secs(30);
/// How long to wait when a connection can't be accepted: there are no
/// descriptors left, and asking again at once would only burn time.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves `routes` until the process stops and every call under way has its
/// answer.
pub async fn serve(listener: TcpListener, routes: Router, lifecycle: Lifecycle) {
    let connections = TaskTracker::new();
    loop {
        // Accepting may be dropped at any time without loss.
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = lifecycle.stopping() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, routes.clone(), lifecycle.clone()));
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "Not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, routes: Router, lifecycle: Lifecycle) {
    // Answers are small and somebody waits for each; without it they are late,
    // but they come.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(routes);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    // A peer that breaks off is its own affair.
    let _ = tokio::select! {
        served = serving.as_mut() => served,
        () = lifecycle.stopping() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
}
