//! A provider over a real socket that plays what it is told, and keeps what it was asked.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) const OUTPUT: &str = "canary-output";
pub(crate) const WORDS: &str = "canary-words-of-the-provider";

/// What a request is answered with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Play {
    /// 503, with words of the provider's own.
    Overloaded,
    /// A whole stream.
    Whole,
    /// A stream that breaks off after its first output.
    Cut,
    /// A stream that falls silent after its first output, and stays.
    Silent,
}

#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    plays: Arc<Mutex<VecDeque<Play>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Self { address: listener.local_addr().unwrap(), plays: Arc::default(), heads: Arc::default() };
        let serving = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().answer(stream));
            }
        });
        provider
    }

    pub(crate) fn play(&self, plays: impl IntoIterator<Item = Play>) {
        self.plays.lock().unwrap().extend(plays);
    }

    /// The heads of the requests so far, taken.
    pub(crate) fn heads(&self) -> Vec<String> {
        std::mem::take(&mut self.heads.lock().unwrap())
    }

    async fn answer(self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut asked = Vec::new();
        let end = loop {
            if let Some(end) = asked.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            stream.read_buf(&mut asked).await?;
        };
        let head = String::from_utf8_lossy(&asked[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        while asked.len() < end + length {
            stream.read_buf(&mut asked).await?;
        }
        self.heads.lock().unwrap().push(head);
        let play = self.plays.lock().unwrap().pop_front().expect("a play for each request");
        stream.write_all(reply(play).as_bytes()).await?;
        if let Play::Silent = play {
            // Until the gateway has gone.
            let _ = stream.read(&mut [0]).await;
        }
        Ok(())
    }
}

fn reply(play: Play) -> String {
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let output = event(&format!("{{\"role\":\"assistant\",\"content\":\"{OUTPUT}\"}}"), "null");
    let usage = r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}"#;
    match play {
        Play::Overloaded => {
            let body = format!(r#"{{"error":{{"message":"{WORDS}","type":"server_error"}}}}"#);
            format!(
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        }
        Play::Whole => format!("{stream}{output}{}{usage}\n\ndata: [DONE]\n\n", event("{}", "\"stop\"")),
        Play::Cut | Play::Silent => format!("{stream}{output}"),
    }
}
