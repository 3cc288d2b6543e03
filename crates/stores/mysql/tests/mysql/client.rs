//! The `mariadb` client, which is installed with the server.

use std::process::Command;

use sqlx::ConnectOptions;

use crate::stage::MySqlStage;

impl MySqlStage {
    /// The client on the stage's database, as the administrator of the server; it runs what it reads.
    pub(crate) fn mariadb(&self) -> Command {
        let options = self.administrator();
        let url = options.to_url_lossy();
        let mut client = Command::new("mariadb");
        client
            .args(["--no-defaults", "--skip-ssl", "--protocol=tcp", "--default-character-set=utf8mb4"])
            .arg(format!("--host={}", options.get_host()))
            .arg(format!("--port={}", options.get_port()))
            .arg(format!("--user={}", options.get_username()))
            .arg(&self.database)
            .env("MYSQL_PWD", percent_decoded(url.password().unwrap_or("")));
        client
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = String::from_utf8_lossy(&[*high, *low]).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
