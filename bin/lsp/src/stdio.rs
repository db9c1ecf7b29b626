//! Implements a connection over standard input and output that limits the length of messages.
//!
//! `lsp-server` allocates as many bytes as a header announces before it reads any of them, and aborts the
//! process if the allocation fails. Therefore the input is split into messages here, and `lsp-server` gets
//! one message at a time.

use std::io::{self, BufRead, Read};
use std::thread::{self, JoinHandle};

use lsp_server::{Connection, Message};

/// The maximum length of a message in bytes: many times the longest program.
const LONGEST: u64 = 256 << 20;
/// The maximum length of a header line in bytes.
const HEADER: u64 = 4096;

/// The reading and the writing thread, in this order.
pub(crate) type Threads = [JoinHandle<io::Result<()>>; 2];

/// Creates the server's end of a connection. The reading thread ends at the end of the input and after
/// `exit`, the writing thread when the connection is dropped.
pub(crate) fn connect() -> (Connection, Threads) {
    let (server, editor) = Connection::memory();
    let Connection { sender, receiver } = editor;
    let reader = thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(message) = read(&mut input)? {
            let is_exit = matches!(&message, Message::Notification(said) if said.method == "exit");
            if sender.send(message).is_err() || is_exit {
                break;
            }
        }
        Ok(())
    });
    let writer = thread::spawn(move || {
        let mut output = io::stdout().lock();
        receiver.into_iter().try_for_each(|message| message.write(&mut output))
    });
    (server, [reader, writer])
}

/// Reads the next message; returns `None` at the end of the input.
fn read(input: &mut impl BufRead) -> io::Result<Option<Message>> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut text = Vec::new();
    let mut len = None;
    loop {
        let start = text.len();
        if input.by_ref().take(HEADER).read_until(b'\n', &mut text)? == 0 {
            return Ok(None);
        }
        let line = str::from_utf8(&text[start..]).unwrap_or_default();
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(invalid("a line of a message's header does not end".to_string()));
        };
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("Content-Length")
        {
            let n = value.parse().ok().filter(|&n: &u64| n <= LONGEST);
            len = Some(n.ok_or_else(|| {
                invalid(format!("a message's header says `{line}`, and none has more than {LONGEST} bytes"))
            })?);
        }
        if start as u64 > HEADER {
            return Err(invalid("a message's header does not end".to_string()));
        }
    }
    let len = len.ok_or_else(|| invalid("a message's header has no `Content-Length`".to_string()))?;
    input.take(len).read_to_end(&mut text)?;
    Message::read(&mut &text[..])
}

#[cfg(test)]
mod tests {
    use super::{HEADER, read};

    #[test]
    fn messages_come_one_after_the_other() {
        let body = r#"{"jsonrpc":"2.0","method":"exit"}"#;
        let one = format!("Content-Length: {}\r\nContent-Type: x\r\n\r\n{body}", body.len());
        let both = one.repeat(2);
        let mut input = both.as_bytes();
        assert!(read(&mut input).expect("it is well-formed").is_some());
        assert!(read(&mut input).expect("it is well-formed").is_some());
        assert!(read(&mut input).expect("it is the end").is_none());
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let endless = "x".repeat(2 * HEADER as usize);
        let lines = "a: b\r\n".repeat(HEADER as usize);
        for text in [
            "Content-Length: 99999999999999\r\n\r\n{}",
            "Content-Length: -1\r\n\r\n{}",
            "Content-Length: 18446744073709551616\r\n\r\n{}",
            "Content-Length: 20\r\n\r\n{}",
            "Content-Length: 2\r\n\r\n{]",
            "Length: 2\r\n\r\n{}",
            "Content-Length: 2\n\n{}",
            "\u{fffd}\r\n\r\n",
            &endless,
            &lines,
        ] {
            assert!(read(&mut text.as_bytes()).is_err(), "{}", &text[..20.min(text.len())]);
        }
    }
}
