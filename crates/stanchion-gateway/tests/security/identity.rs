//! What a caller says of itself counts only where it may say it.

use crate::peers::{Listening, Provider, chat, config, statuses};

#[tokio::test]
async fn only_who_is_believed_is_heard() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi.\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let provider = Provider::answering(format!("{head}content-length: {}\r\n\r\n{stream}", stream.len())).await;
    let clients =
        "[clients.trusted]\nkey = \"k-trusted\"\nidentity_headers = true\n[clients.stranger]\nkey = \"k-stranger\"\n";
    let keyed = Listening::configured(&(config("", &provider) + clients)).await;
    // What counts without keys gives none of them leave.
    let told = Listening::configured(&(config("identity_headers = true", &provider) + clients)).await;
    let anybody = Listening::start("identity_headers = false", &provider).await;
    let believed = Listening::start("", &provider).await;
    for (gateway, key, heard) in [
        (&keyed, "k-trusted", true),
        (&keyed, "k-stranger", false),
        (&told, "k-stranger", false),
        (&anybody, "", false),
        (&believed, "", true),
    ] {
        // Its events, as a sign of who is heard: they come in the reply.
        let asked = format!(
            "connection: close\r\nauthorization: Bearer {key}\r\nX-Stanchion-Events: sse\r\nx-stanchion-owner: somebody-else\r\n\
            x-stanchion-class: internal\r\nx-stanchion-session: theirs\r\n"
        );
        let mut client = gateway.connect().await;
        client.send(chat(&asked).replace("\"messages\":[]", "\"stream\":true")).await;
        let replies = client.rest().await;
        assert_eq!(statuses(&replies), ["200"], "{key}: {replies}");
        assert_eq!(replies.contains("x-stanchion-events: sse"), heard, "{key}: {replies}");
        let [asked] = &provider.asked()[..] else { panic!("{key}") };
        assert!(!asked.to_lowercase().contains("x-stanchion-"), "{key}: {asked}");
    }
}
