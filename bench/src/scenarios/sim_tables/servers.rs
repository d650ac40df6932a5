//! The servers that are recorded, and their load, which comes from processes that are not.

use super::recorded::JVM;
use crate::harness::interrupt;
use crate::harness::load::{answers, ask, free_address};
use crate::harness::programs::cache;
use crate::{Error, Result};
use plimsoll_testbed::children::{end, end_with_us};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it answers, and until it has ended and its trace is made.
const PATIENCE: Duration = Duration::from_secs(900);
/// Time between two looks at it.
const PACE: Duration = Duration::from_millis(300);
/// Bytes of a record.
const RECORD: &str = "500";
/// Connections of Liberty's clients, and threads that it answers with.
const CONNECTIONS: usize = 32;

/// A page that allocates in the manner of such pages: it fills a sorted map, and prints it.
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

/// Makes a command run in a folder, and end with us. Returns the log there to which it writes what it says.
///
/// # Errors
/// When there can be no log.
pub(super) fn logged(command: &mut Command, folder: &Path) -> Result<PathBuf> {
    let log = folder.join("log");
    let file = File::create(&log).map_err(Error::file("write", &log))?;
    let errors = file.try_clone().map_err(Error::file("write", &log))?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.current_dir(folder);
    end_with_us(command);
    Ok(log)
}

/// A server that is being recorded.
#[derive(Debug)]
pub(super) struct Running {
    /// `plimsoll trace`, which passes signals on.
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it, with a log in a folder, in which it runs.
    pub(super) fn start(mut command: Command, folder: &Path) -> Result<Running> {
        let log = logged(&mut command, folder)?;
        let child = command.spawn().map_err(Error::start(&command))?;
        Ok(Running { child, log })
    }

    /// Waits until it is there.
    pub(super) fn wait_for(&mut self, is_there: impl Fn() -> bool) -> Result<()> {
        let begin = Instant::now();
        while !is_there() {
            interrupt::check()?;
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(self.failed("ended"));
            }
            if begin.elapsed() > PATIENCE {
                return Err(self.failed("did not answer"));
            }
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// Makes it end, and waits until its trace is made.
    ///
    /// # Errors
    /// When it ends with another status, or takes too long.
    pub(super) fn end(mut self, expected: i32) -> Result<()> {
        end(&mut self.child, PATIENCE);
        let status = self.child.wait();
        let status = status.map_err(|e| Error::program("plimsoll trace", e.to_string()))?;
        match status.code() == Some(expected) {
            true => Ok(()),
            false => Err(self.failed(&format!("ended ({status})"))),
        }
    }

    fn failed(&self, what: &str) -> Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it said nothing");
        Error::program("the recorded server", format!("{what}: {last}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child, Duration::from_secs(20));
    }
}

/// A single broker, which is its own controller.
#[derive(Debug)]
pub(super) struct Kafka {
    config: PathBuf,
    address: SocketAddr,
}

impl Kafka {
    /// Lays its storage out in a folder. It is recorded slowly, so its timeouts are long.
    pub(super) fn prepare(folder: &Path) -> Result<Kafka> {
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

    /// What the virtual machine is given.
    pub(super) fn add_to(&self, command: &mut Command) {
        command.args(["-cp", &cache("traced/*"), "kafka.Kafka"]);
        command.arg(&self.config);
    }

    /// Whether it listens.
    pub(super) fn is_there(&self) -> bool {
        TcpStream::connect_timeout(&self.address, PACE).is_ok()
    }

    /// Writes so many records, and reads them.
    pub(super) fn load(&self, records: u32) -> Result<()> {
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
        let mut command = Command::new(JVM.java());
        command.args(JVM.choice());
        command.args(["-Xmx128m", "-cp", &cache("traced/*"), class]);
        command.args(arguments).stdin(Stdio::null());
        end_with_us(&mut command);
        let out = command.output().map_err(Error::start(&command))?;
        match out.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
                Err(Error::program(class, format!("{}: {said}", out.status)))
            }
        }
    }
}

/// Open Liberty with a page.
#[derive(Debug)]
pub(super) struct Liberty {
    user: PathBuf,
    address: SocketAddr,
}

impl Liberty {
    /// Lays a server out in a folder.
    pub(super) fn prepare(folder: &Path) -> Result<Liberty> {
        let address = free_address()?;
        let (pages, server) = (folder.join("pages"), folder.join("servers/recorded"));
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

    /// What the virtual machine is given.
    pub(super) fn add_to(&self, command: &mut Command) {
        let tool = |name: &str| cache(&format!("liberty/wlp/bin/tools/{name}"));
        command.arg(format!("-javaagent:{}", tool("ws-javaagent.jar")));
        command.args(["-jar", &tool("ws-server.jar"), "recorded"]);
        command.env("WLP_USER_DIR", &self.user);
    }

    /// Whether the page is there.
    pub(super) fn is_there(&self) -> bool {
        answers(self.address, "/pages/page.jsp")
    }

    /// Asks for the page so often on each of the connections.
    pub(super) fn load(&self, requests: u32) -> Result<()> {
        ask(self.address, "/pages/page.jsp", CONNECTIONS, requests)
    }
}
