//! Keys, of providers and of clients, and where they may stand.

use super::*;

#[test]
fn a_provider_may_have_several_keys() {
    let provider = |lines: &str| with("").replace("[providers.p]\n", &format!("[providers.p]\n{lines}\n"));
    let config = parse(&provider(
        "api_keys_env = [\"PRIMARY_KEY\"]\ncredentials = { strategy = \"fill_first\", cooldown = \"30s\" }",
    ))
    .unwrap();
    let pool = config.credentials.get("p").unwrap();
    assert_eq!((pool.ids().len(), &*pool.ids()[0], pool.strategy().as_str()), (1, "PRIMARY_KEY", "fill_first"));
    let plain = parse(&provider("api_keys = [\"sk-1\", \" sk-2 \"]")).unwrap();
    let ids = plain.credentials.get("p").unwrap().ids();
    assert!(ids.iter().map(|id| &**id).eq(["1", "2"]));
    for (lines, complaint) in [
        ("api_keys = [\"sk-1\", \"\"]", "api_keys: the key 2 is empty"),
        ("api_keys = [\"sk-1\"]\napi_keys_env = [\"PRIMARY_KEY\"]", "the keys are given twice"),
        ("api_keys = [\"sk-1\"]\napi_key = \"sk\"", "the key is given twice"),
        ("api_keys_env = [\"NO_SUCH_KEY\"]", "the environment variable NO_SUCH_KEY is not set"),
        ("api_keys_env = [\"PRIMARY_KEY\"]\napi_key = \"sk\"", "the key is given twice"),
        ("credentials = { cooldown = \"30s\" }", "there is nothing to choose from: set api_keys_env"),
        ("api_keys_env = []", "providers.p.api_keys_env: `credential` must be given between 1 and 256 times"),
    ] {
        let error = parse(&provider(lines)).map(drop).expect_err(lines).to_string();
        assert!(error.contains(complaint), "{lines}\n  told:   {error}\n  wanted: {complaint}");
    }
}

#[test]
fn keys_of_two_providers_are_not_kept_in_one_file() {
    let text = |one: &str, other: &str| {
        let provider = |name: &str, file: &str| {
            format!(
                "[providers.{name}]\ndialect = \"openai\"\nbase_url = \"http://h/v1\"\napi_keys = [\"sk-{name}\"]\n\
                 credentials.state_file = \"{file}\"\n"
            )
        };
        format!("{}{}[models.m]\ncandidates = [{{ provider = \"b\" }}]\n", provider("a", one), provider("b", other))
    };
    let config = parse(&text("a.json", "b.json")).unwrap();
    assert_eq!(config.credentials.iter().count(), 2);
    for other in ["state.json", "./state.json", "nowhere/../state.json"] {
        let error = parse(&text("state.json", other)).map(drop).unwrap_err().to_string();
        assert_eq!(
            error,
            "stanchion.toml:10: providers.b.credentials.state_file: is that of the provider \"a\" too: each needs its own"
        );
    }
}

#[test]
fn a_relative_path_begins_where_the_file_is() {
    let folder = std::env::temp_dir().join(format!("stanchion-config-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("keys")).unwrap();
    std::fs::write(folder.join("keys").join("p"), "sk-file").unwrap();
    let file = folder.join("stanchion.toml");
    let parse = |text: &str| {
        Config::parse(&file.display().to_string(), &format!("server.inline_keys = true\n{text}"), &|_| None)
    };
    let text = with("").replace("[providers.p]", "[providers.p]\napi_key_file = \"keys/p\"");
    let config = parse(&text).unwrap();
    let key = config.models["m"].candidates.select(0).unwrap().candidate.credential().unwrap().expose().to_owned();
    assert_eq!((key.as_str(), &config.files[..]), ("sk-file", &[folder.join("keys/p")][..]));
    // Another path to the same file, from there and from where the tests run.
    let state = "\ncredentials.state_file = \"keys/../s.json\"\napi_keys = [\"sk\"]";
    let pools = parse(&with("").replace("[providers.p]", &format!("[providers.p]{state}"))).unwrap().credentials;
    let at = |path: PathBuf| {
        CredentialPool::builder("q").credential("a", Secret::new("k")).state_file(path).build().unwrap()
    };
    assert!(pools.get("p").unwrap().shares_state_file(&at(folder.join("s.json"))));
    assert!(!pools.get("p").unwrap().shares_state_file(&at("s.json".into())));
    let records = parse(&with("[telemetry.records]\npath = \"calls.jsonl\"")).unwrap().telemetry.records.unwrap();
    assert_eq!(records.path, folder.join("calls.jsonl"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_client_may_be_told_who_it_is() {
    let text = "[clients.bot]\nkey = \"k\"\nowner = \"team\"\nclass = \"background\"";
    let client = &parse(&with(text)).unwrap().clients[0];
    assert_eq!(
        (client.owner.as_deref(), client.class, client.identity_headers),
        (Some("team"), Some(RequestClass::Background), false)
    );
    let long = "x".repeat(257);
    for owner in [" ", " team", "a\\tb", &long] {
        let text = format!("[clients.bot]\nkey = \"k\"\nowner = \"{owner}\"");
        let error = parse(&with(&text)).map(drop).unwrap_err().to_string();
        assert!(error.contains(":8: clients.bot.owner: an owner is a name"), "{error}");
        let error = parse(&with(&format!("[owners.\"{owner}\"]\nweight = 2"))).map(drop).unwrap_err().to_string();
        assert!(error.contains("an owner is a name"), "{error}");
    }
    // Who may not say whose requests they are has a share of its own.
    for (line, owner) in [("identity_headers = true", None), ("", Some("bot")), ("owner = \"Büro\"", Some("Büro"))] {
        let client = &parse(&with(&format!("[clients.bot]\nkey = \"k\"\n{line}"))).unwrap().clients[0];
        assert_eq!(client.owner.as_deref(), owner);
    }
}

#[test]
fn a_client_with_a_key_is_believed_only_where_it_says_so() {
    let config = |text: &str| parse(&with(text)).unwrap();
    assert!(config("").identity_headers, "where nobody has a key, whoever comes in is trusted");
    assert!(!config("[server]\nidentity_headers = false").identity_headers);
    let table = "[clients.bot]\nkey = \"k\"\n";
    for (server, own, believed, warnings) in [
        ("", "", false, 0),
        ("", "identity_headers = true", true, 0),
        ("", "identity_headers = false", false, 0),
        ("[server]\nidentity_headers = false\n", "identity_headers = true", true, 0),
        ("[server]\nidentity_headers = true\n", "", false, 1),
    ] {
        let config = config(&format!("{server}{table}{own}"));
        assert_eq!((config.clients[0].identity_headers, config.warnings.len()), (believed, warnings), "{server}{own}");
        for warning in &config.warnings {
            assert_eq!(warning.key, "server.identity_headers", "{}", warning.reason);
        }
    }
}

#[test]
fn keys_stand_in_no_file_unless_they_may() {
    let plain = |text: &str| Config::parse("f", text, &|_| None).map(drop).map_err(|error| error.to_string());
    let provider = |lines: &str| with("").replace("[providers.p]\n", &format!("[providers.p]\n{lines}\n"));
    for text in [
        provider("api_key = \"sk-hidden\""),
        provider("api_keys = [\"sk-hidden\", \"sk-hidden-too\"]"),
        with("[clients.me]\nkey = \"sk-hidden\""),
    ] {
        let told = plain(&text).unwrap_err();
        assert!(told.contains("a key does not stand in this file") && !told.contains("hidden"), "{told}");
        assert_eq!(plain(&format!("[server]\ninline_keys = true\n{text}")), Ok(()));
    }
    // A variable over the file is no part of it.
    let over = Overrides::from_iter([("STANCHION__PROVIDERS__P__API_KEY".to_owned(), "sk-hidden".to_owned())]);
    assert!(Config::parse_under("f", &with(""), &over, &|_| None).is_ok());
}

#[test]
fn a_clients_key_may_be_known_by_its_hash_alone() {
    let hash = crate::keys::hash_of("k1");
    let text = with(&format!(
        "[clients.one]\nkey_sha256 = \"{hash}\"\nmodels = [\"m\"]\nrequests_per_minute = 60\nconcurrency = 2"
    ));
    let client = parse(&text).unwrap().clients.remove(0);
    assert_eq!((client.name.as_str(), crate::keys::hash_of("k1")), ("one", hash.clone()));
    assert_eq!((client.models.as_deref(), client.limits.requests_per_minute), (Some(&["m".to_owned()][..]), Some(60)));
    assert_eq!(client.limits.concurrency, Some(2));
    assert!(!format!("{client:?}").contains(&hash[..8]));
    for (tables, complaint) in [
        ("[clients.a]\nkey_sha256 = \"abc\"".to_owned(), "clients.a.key_sha256: no SHA-256"),
        (format!("[clients.a]\nkey_sha256 = \"{hash}\"\nkey = \"k\""), "the key is given twice"),
        (format!("[clients.a]\nkey_sha256 = \"{hash}\"\n[clients.b]\nkey = \"k1\""), "clients.b: has the key of \"a\""),
        (format!("[clients.a]\nkey_sha256 = \"{hash}\"\nmodels = []"), "clients.a.models: names at least one model"),
        (
            format!("[clients.a]\nkey_sha256 = \"{hash}\"\nconcurrency = 0"),
            "clients.a.concurrency: must be 1 to 1,000,000",
        ),
    ] {
        let told = parse(&with(&tables)).map(drop).unwrap_err().to_string();
        assert!(told.contains(complaint), "{told}");
    }
}

#[cfg(unix)]
#[test]
fn a_key_file_that_everybody_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("stanchion-key-{}", std::process::id()));
    std::fs::write(&path, "sk-in-a-file").unwrap();
    let text = with("")
        .replace("[providers.p]\n", &format!("[providers.p]\napi_key_file = {:?}\n", path.display().to_string()));
    for (mode, warnings) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let config = parse(&text).unwrap();
        assert_eq!((config.warnings.len(), config.files.len()), (warnings, 1), "{mode:o}");
    }
    std::fs::remove_file(path).unwrap();
}
