//! Serves pages at a local address, which only this machine can connect to.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use driver::Error;
use tiny_http::{Header, Method, Response, Server};

/// A page, or what belongs to one.
pub(crate) struct Content {
    /// The type, such as `image/png`.
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    /// A page.
    pub(crate) fn html(text: &str) -> Content {
        Content { kind: "text/html; charset=utf-8", bytes: text.as_bytes().to_vec() }
    }
}

/// The system's message.
fn why(error: &(dyn std::error::Error + 'static)) -> String {
    error.downcast_ref().map_or_else(|| error.to_string(), driver::files::plain)
}

/// Serves at the port of this machine, 0 for any that is free, on a thread that ends with the process. `answer` finds what
/// is at a path. Errors name the `option` that gave the port.
pub(crate) fn serve(
    port: u16,
    option: &str,
    answer: impl Fn(&str) -> Option<Content> + Send + 'static,
) -> Result<(SocketAddr, JoinHandle<()>), Error> {
    let unusable = |why: String| Error::input(format!("`{option}`: port {port} cannot be used: {why}"));
    let server = Server::http(("127.0.0.1", port)).map_err(|e| unusable(why(&*e)))?;
    let address = server.server_addr().to_ip().ok_or_else(|| unusable("it has no address".to_string()))?;
    let thread = std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let path = request.url().split(['?', '#']).next().unwrap_or_default();
            let is_read = matches!(request.method(), Method::Get | Method::Head);
            let content = if is_read { answer(path) } else { None };
            let Some(Content { kind, bytes }) = content else {
                let _ = request.respond(Response::empty(404));
                continue;
            };
            let mut response = Response::from_data(bytes);
            for (name, value) in [("Content-Type", kind), ("Cache-Control", "no-store")] {
                if let Ok(header) = Header::from_bytes(name, value) {
                    response.add_header(header);
                }
            }
            // A browser that has gone is no error.
            let _ = request.respond(response);
        }
    });
    Ok((address, thread))
}
