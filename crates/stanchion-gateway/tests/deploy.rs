//! What stands in `deploy/` works as it stands there.

use std::process::Command;

use stanchion_gateway::config::Config;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

fn read(name: &str) -> String {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).unwrap()
}

/// What `check` says of a configuration, where the keys are set that it names.
fn check(path: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_stanchion"))
        .env_clear()
        .envs([
            ("OPENAI_API_KEY", "sk-test"),
            ("STANCHION_CLIENT_KEY", "key-of-the-test"),
            ("STANCHION_ADMIN_KEY", "key-of-admin"),
        ])
        .args(["check", "--config", path])
        .output()
        .unwrap();
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The text of a block in a YAML file, without its indent.
fn block(yaml: &str, key: &str) -> String {
    let mut lines = yaml.lines().skip_while(|line| line.trim() != format!("{key}: |")).skip(1).peekable();
    let indent = lines.peek().unwrap().len() - lines.peek().unwrap().trim_start().len();
    let inside = |line: &&str| line.trim().is_empty() || line.starts_with(&" ".repeat(indent));
    lines.take_while(inside).flat_map(|line| [line.get(indent..).unwrap_or_default(), "\n"]).collect()
}

/// The seconds behind `key`, in YAML or a unit file.
fn seconds(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap_or_else(|| panic!("{key}"));
    line.trim_matches([':', '=', ' ', '"', 's']).parse().unwrap()
}

#[test]
fn the_configurations_are_in_order() {
    check(&format!("{FOLDER}/stanchion.toml"));
    let config = block(&read("kubernetes.yaml"), "stanchion.toml");
    assert!(config.starts_with("[server]\n"), "{config}");
    let path = std::env::temp_dir().join(format!("stanchion-deploy-{}.toml", std::process::id()));
    std::fs::write(&path, config).unwrap();
    check(path.to_str().unwrap());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn whoever_ends_it_waits_for_longer_than_it_drains() {
    let (unit, kubernetes) = (read("stanchion.service"), read("kubernetes.yaml"));
    let drain = seconds(&read("stanchion.toml"), "drain =");
    assert!(seconds(&unit, "TimeoutStopSec=") > drain + 2);
    let grace = seconds(&kubernetes, "terminationGracePeriodSeconds:");
    let config = block(&kubernetes, "stanchion.toml");
    assert!(grace > seconds(&kubernetes, "seconds:") + seconds(&config, "drain =") + 2);
    assert!(unit.contains("Type=notify-reload") && unit.contains("RestartPreventExitStatus=78"));
    for probe in ["path: /readyz", "path: /healthz"] {
        assert!(kubernetes.contains(probe), "{probe}");
    }
}

#[test]
fn the_ports_are_those_that_are_listened_at_and_each_key_is_in_the_secret() {
    let kubernetes = read("kubernetes.yaml");
    let text = block(&kubernetes, "stanchion.toml");
    let config = Config::parse("f", &text, &|_| Some("key".to_owned())).unwrap();
    let admin = config.admin.unwrap();
    assert!(!config.server.listen.ip().is_loopback() && !admin.listen.ip().is_loopback());
    assert!(admin.key.is_some());
    for (name, port) in [("http", config.server.listen.port()), ("metrics", admin.listen.port())] {
        let declared = format!("- name: {name}\n              containerPort: {port}\n");
        assert!(kubernetes.contains(&declared), "{declared}");
    }
    let service = kubernetes.split("---\n").find(|document| document.contains("kind: Service\n")).unwrap();
    assert!(service.contains("targetPort: http"));
    let admin_port = admin.listen.port().to_string();
    assert!(!service.contains("metrics") && !service.contains(&admin_port), "what operators can do is in no Service");
    assert!(kubernetes.contains("\n  STANCHION_ADMIN_KEY: \"\"\n"), "no key that everybody knows");
    let (secret, _) = kubernetes.split_once("kind: ConfigMap").unwrap();
    for line in text.lines().filter_map(|line| line.split_once("key_env = ")) {
        let name = line.1.trim_matches('"');
        assert!(secret.contains(&format!("\n  {name}: ")), "{name}");
    }
}

#[test]
fn every_command_is_one_that_the_binary_has() {
    for (name, expected) in [("Dockerfile", 1), ("stanchion.service", 2), ("kubernetes.yaml", 1)] {
        let text = read(name);
        let uses =
            text.lines().filter(|line| line.contains("/etc/stanchion/stanchion.toml") && line.contains("--config"));
        assert_eq!(uses.count(), expected, "{name}");
    }
    assert!(!read("Dockerfile").contains("USER root") && read("Dockerfile").contains("USER 65532:65532"));
}
