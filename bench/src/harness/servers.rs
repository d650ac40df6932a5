//! Servers of others, and their load, which comes from other processes than theirs.

use super::load::{answers, ask, free_address};
use super::programs::{Jvm, cache};
use crate::{Error, Result};
use plimsoll_testbed::children::end_with_us;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a connection may take.
const PACE: Duration = Duration::from_millis(300);
/// On which virtual machine Kafka's own tools run.
const TOOLS: Jvm = Jvm {
    version: 17,
    collector: "Serial",
};
/// Bytes of a record.
const RECORD: &str = "500";
/// Connections of Liberty's clients, and threads that it answers with.
const CONNECTIONS: usize = 32;

/// Name of Liberty's server.
const NAME: &str = "measured";

/// A page that allocates as pages often do: it fills a sorted map, and prints it.
const PAGE: &str = r#"<%@ page session="false" import="java.util.*" %><html><body><%
Map<Integer, String> entries = new TreeMap<>();
for (int i = 0; i < 200; i++) {
  entries.put(i * 797 % 1000, "entry " + i);
}
for (Map.Entry<Integer, String> each : entries.entrySet()) {
  %><p><%= each.getKey() %>: <%= each.getValue() %></p><%
}
%></body></html>
"#;

/// A single broker, which is its own controller.
#[derive(Debug)]
pub struct Kafka {
    config: PathBuf,
    address: SocketAddr,
}

impl Kafka {
    /// Lays its storage out in a folder. It is recorded slowly, so its timeouts are long.
    ///
    /// # Errors
    /// When a file cannot be written, or its tool fails.
    pub fn prepare(folder: &Path) -> Result<Kafka> {
        let (address, controller) = (free_address()?, free_address()?);
        let logs = folder.join("logs");
        let config = folder.join("server.properties");
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@{controller}\n\
             listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n\
             controller.listener.names=CONTROLLER\nlog.dirs={}\n\
             num.partitions=4\noffsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=4\nlog.cleaner.enable=false\n\
             controller.quorum.election.timeout.ms=60000\n\
             controller.quorum.fetch.timeout.ms=120000\n\
             controller.quorum.request.timeout.ms=120000\n\
             broker.session.timeout.ms=300000\nbroker.heartbeat.interval.ms=10000\n\
             initial.broker.registration.timeout.ms=600000\nrequest.timeout.ms=300000\n",
            logs.display()
        );
        fs::write(&config, text).map_err(Error::file("write", &config))?;
        let kafka = Kafka { config, address };
        let config = kafka.config.display().to_string();
        let id = "AAAAAAAAAAAAAAAAAAAAAQ";
        kafka.tool(
            "kafka.tools.StorageTool",
            &["format", "-t", id, "-c", &config],
        )?;
        Ok(kafka)
    }

    /// Arguments of the virtual machine.
    pub fn arguments(&self) -> Vec<String> {
        let config = self.config.display().to_string();
        let path = cache("traced/*");
        ["-cp", &path, "kafka.Kafka", &config]
            .map(str::to_owned)
            .into()
    }

    /// Whether it listens.
    pub fn is_there(&self) -> bool {
        TcpStream::connect_timeout(&self.address, PACE).is_ok()
    }

    /// Writes this many records, and reads them.
    ///
    /// # Errors
    /// When one of the tools fails.
    pub fn load(&self, records: u32) -> Result<()> {
        let (records, server) = (records.to_string(), format!("{}", self.address));
        let bootstrap = format!("bootstrap.servers={server}");
        self.tool(
            "org.apache.kafka.tools.ProducerPerformance",
            &[
                "--topic",
                "records",
                "--num-records",
                &records,
                "--record-size",
                RECORD,
                "--throughput",
                "-1",
                "--producer-props",
                &bootstrap,
                "acks=1",
                // Four records in a request.
                "batch.size=2000",
                "max.block.ms=600000",
                "request.timeout.ms=300000",
                "delivery.timeout.ms=900000",
            ],
        )?;
        self.tool(
            "org.apache.kafka.tools.ConsumerPerformance",
            &[
                "--bootstrap-server",
                &server,
                "--topic",
                "records",
                "--messages",
                &records,
                "--timeout",
                "300000",
                "--fetch-size",
                "20000",
            ],
        )
    }

    fn tool(&self, class: &str, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(TOOLS.java());
        command.args(TOOLS.choice());
        command.args(["-Xmx128m", "-cp", &cache("traced/*"), class]);
        command.args(arguments).stdin(Stdio::null());
        end_with_us(&mut command);
        let out = command.output().map_err(Error::start(&command))?;
        if out.status.success() {
            Ok(())
        } else {
            let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
            Err(Error::program(class, format!("{}: {said}", out.status)))
        }
    }
}

/// Open Liberty with a page.
#[derive(Debug)]
pub struct Liberty {
    user: PathBuf,
    address: SocketAddr,
}

impl Liberty {
    /// Lays a server out in a folder.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn prepare(folder: &Path) -> Result<Liberty> {
        let address = free_address()?;
        let (pages, server) = (folder.join("pages"), folder.join("servers").join(NAME));
        let xml = format!(
            "<server>\n<featureManager><feature>pages-3.1</feature></featureManager>\n\
             <httpEndpoint id=\"defaultHttpEndpoint\" host=\"127.0.0.1\" httpPort=\"{}\" \
             httpsPort=\"-1\"/>\n\
             <executor coreThreads=\"{CONNECTIONS}\" maxThreads=\"{CONNECTIONS}\"/>\n\
             <webApplication location=\"{}\" contextRoot=\"/pages\"/>\n\
             <applicationMonitor updateTrigger=\"disabled\"/>\n\
             <config updateTrigger=\"disabled\"/>\n</server>\n",
            address.port(),
            pages.display()
        );
        for (folder, name, text) in [
            (&pages, "page.jsp", PAGE),
            (&server, "server.xml", xml.as_str()),
        ] {
            fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
            let path = folder.join(name);
            fs::write(&path, text).map_err(Error::file("write", &path))?;
        }
        Ok(Liberty {
            user: folder.to_owned(),
            address,
        })
    }

    /// Arguments of the virtual machine.
    pub fn arguments(&self) -> Vec<String> {
        let tool = |name: &str| cache(&format!("liberty/wlp/bin/tools/{name}"));
        let agent = format!("-javaagent:{}", tool("ws-javaagent.jar"));
        let server = tool("ws-server.jar");
        [&agent, "-jar", &server, NAME].map(str::to_owned).into()
    }

    /// The variable by which it finds its folder.
    pub fn variable(&self) -> (String, String) {
        let user = self.user.display().to_string();
        ("WLP_USER_DIR".to_owned(), user)
    }

    /// Whether the page is there.
    pub fn is_there(&self) -> bool {
        answers(self.address, "/pages/page.jsp")
    }

    /// Asks for the page the given number of times on each of the connections.
    ///
    /// # Errors
    /// When a request gets no good answer.
    pub fn load(&self, requests: u32) -> Result<()> {
        ask(self.address, "/pages/page.jsp", CONNECTIONS, requests)
    }
}
