//! What the guide shows of a relay's file is right.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use pillarbox::Settings;

use crate::program::{Answer, pillarbox};

const CONFIGURATION: &str = include_str!("../../../../docs/guide/configuration.md");

/// The pages that show a relay's file, and how many of them each shows.
const PAGES: [(&str, &str, usize); 6] = [
    ("relay", include_str!("../../../../docs/guide/relay.md"), 4),
    ("sinks-kafka", include_str!("../../../../docs/guide/sinks-kafka.md"), 1),
    ("sinks-nats", include_str!("../../../../docs/guide/sinks-nats.md"), 1),
    ("sinks-rabbitmq", include_str!("../../../../docs/guide/sinks-rabbitmq.md"), 1),
    ("sinks-redis", include_str!("../../../../docs/guide/sinks-redis.md"), 1),
    ("sinks-http", include_str!("../../../../docs/guide/sinks-http.md"), 1),
];

/// What a page leaves out that shows a part of the file.
const REST: [(&str, &str); 3] = [
    ("[outbox", "[outbox.store]\nurl = \"shop.db\"\n"),
    ("[messages]", "[messages]\nsource = \"/shop/orders\"\n"),
    (
        "[sinks.",
        "[sinks.kafka]\ntype = \"kafka\"\nbrokers = \"localhost:9092\"\ntopic = \"shop\"\n\
         [sinks.hooks]\ntype = \"http\"\nurl = \"https://shop.example/hooks\"\n",
    ),
];

/// Secrets that pages take from the environment.
const SECRETS: [(&str, &str); 7] = [
    ("KAFKA_PASSWORD", "seventeen"),
    ("NATS_PASSWORD", "seventeen"),
    ("AMQP_PASSWORD", "seventeen"),
    ("REDIS_PASSWORD", "seventeen"),
    ("WEBHOOK_SECRET", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
    ("OLD_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("HOOKS_AUTHORIZATION", "Bearer seventeen"),
];

fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```toml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0)
}

/// The block with the tables that it leaves out.
fn whole(block: &str) -> String {
    let missing = REST.iter().filter(|(table, _)| !block.contains(table));
    missing.fold(block.to_owned(), |text, (_, tables)| format!("{text}\n{tables}"))
}

/// M4: every file of a relay in the guide is one that `config check` finds right; of a sink that this build does not
/// have it says so.
#[test]
fn files_of_the_guide_are_right() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillarbox.toml");
    let known = Answer::of(pillarbox().arg("--version").output().unwrap()).out;
    let sinks = known.lines().find_map(|line| line.strip_prefix("sinks: ")).unwrap();
    for (page, text, expected) in PAGES {
        let files: Vec<String> =
            blocks(text).filter(|block| block.contains("[[routes]]")).map(whole).collect();
        assert_eq!(files.len(), expected, "{page}");
        for text in files {
            std::fs::write(&file, &text).unwrap();
            let mut program = pillarbox();
            program.args(["config", "check", "--config"]).arg(&file).envs(SECRETS);

            let answer = Answer::of(program.output().unwrap());

            let mut kinds = text.lines().filter_map(|line| line.strip_prefix("type = "));
            let is_built_with = |kind: &str| sinks.split(", ").any(|sink| sink == kind.trim_matches('"'));
            match kinds.all(is_built_with) {
                true => assert_eq!(answer.code, Some(0), "{page}: {}\n{text}", answer.err),
                false => {
                    assert!(answer.err.contains("this program was built without"), "{page}: {}", answer.err)
                }
            }
        }
    }
}

/// M4: what the guide shows of an outbox's options is what an outbox takes.
#[test]
fn options_of_the_guide_are_right() {
    for block in blocks(CONFIGURATION) {
        let settings = Settings::from_toml(block).unwrap_or_else(|error| panic!("{error}\n{block}"));

        settings.check().unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}
