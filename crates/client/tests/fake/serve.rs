//! The connections of the scripted broker.

use super::*;
use plimsoll_kernel::clock;

pub(super) fn accept(common: &Arc<Common>, listener: &UnixListener) {
    let mut threads = Vec::new();
    while !common.dead.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                let clone = stream.try_clone().unwrap();
                common.state.lock().unwrap().connections.push(clone);
                let common = Arc::clone(common);
                threads.push(std::thread::spawn(move || serve(&common, stream)));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let _ = std::fs::remove_file(common.directory.join("broker.sock"));
    // Connections that were accepted after `end` looked.
    for stream in &common.state.lock().unwrap().connections {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

pub(super) fn beat(common: &Common) {
    while !common.dead.load(Ordering::SeqCst) {
        let mut state = common.state.lock().unwrap();
        if !state.frozen {
            for page in state.pages.values_mut() {
                if let Some(file) = &page.file {
                    let step = page.image.heartbeat(clock::now());
                    file.write_all_at(step.bytes, step.offset).unwrap();
                }
            }
        }
        drop(state);
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn serve(common: &Common, mut stream: UnixStream) {
    let mut decoder = Decoder::default();
    let mut life = None;
    let mut chunk = [0; 4096];
    'connection: loop {
        let count = match stream.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        decoder.push(&chunk[..count]);
        while let Ok(Some(message)) = decoder.next_message() {
            let message = message.to_vec();
            let call = Call::parse(&message).unwrap();
            if !answer(common, &mut stream, &call, &mut life) {
                break 'connection;
            }
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
    if let Some(id) = life {
        let mut state = common.state.lock().unwrap();
        state.gone.push(id);
        state.pages.remove(&id);
        common.changed.notify_all();
    }
}

/// Answers a message. Returns false if the connection is to be closed.
fn answer(
    common: &Common,
    stream: &mut UnixStream,
    call: &Call<'_>,
    life: &mut Option<Id>,
) -> bool {
    let script = common.state.lock().unwrap().script;
    match script {
        Script::Silent => return true,
        Script::Late(ms) => std::thread::sleep(Duration::from_millis(ms)),
        Script::Truncated => {
            let _ = stream.write_all(b"{\"parameters\":{\"id\":1,\"pa");
            return false;
        }
        Script::Garbage => return stream.write_all(b"\xff\xfe nonsense\0").is_ok(),
        Script::Endless => {
            while stream.write_all(&[b' '; 65536]).is_ok() {}
            return false;
        }
        _ => {}
    }
    let mut out = Vec::new();
    let result = dispatch(common, stream, call, life, &mut out);
    if let Err(error) = result {
        encode_error(&mut out, &error);
    }
    let sent = stream.write_all(&out).is_ok();
    sent && !(script == Script::DiesAfterRegister && life.is_some())
}

fn dispatch(
    common: &Common,
    stream: &UnixStream,
    call: &Call<'_>,
    life: &mut Option<Id>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let mut guard = common.state.lock().unwrap();
    let state = &mut *guard;
    if &*call.method == service::GET_INFO {
        encode_reply(out, &service::info("0.0.0"), false).unwrap();
        return Ok(());
    }
    let method =
        Method::from_wire(&call.method).ok_or_else(|| WireError::unknown_method(&call.method))?;
    match method {
        Method::Register => {
            let registered = register(common, state, call.parameters()?)?;
            *life = Some(registered.id);
            encode_reply(out, &registered, false).unwrap();
        }
        Method::Subscribe => {
            let Which { id } = call.parameters()?;
            let page = state.pages.get(&id);
            let missing = || WireError::new(ErrorName::NoSuchPrincipal, format!("no {id}"));
            let page = page.ok_or_else(missing)?;
            encode_reply(out, &changed(id, page), true).unwrap();
            state.subscribers.push((id, stream.try_clone().unwrap()));
        }
        Method::Attach => {
            let attach: messages::Attach = call.parameters()?;
            state.attached.push((attach.id, attach.pid));
            encode_reply(out, &Nothing {}, false).unwrap();
        }
        Method::Contain => encode_reply(out, &Nothing {}, false).unwrap(),
        Method::Adapt => {
            let adapt: Adapt = call.parameters()?;
            state
                .adapted
                .push((adapt.id, adapt.adapter.map(String::from)));
            encode_reply(out, &Nothing {}, false).unwrap();
        }
        Method::Report => {
            state.reports.push(call.parameters()?);
            encode_reply(out, &Nothing {}, false).unwrap();
        }
        Method::Released => {
            state.released += call.parameters::<Released>()?.bytes;
            encode_reply(out, &Nothing {}, false).unwrap();
        }
        Method::Set => {
            state.sets.push(call.parameters()?);
            encode_reply(out, &Nothing {}, false).unwrap();
        }
        Method::List => {
            encode_reply(out, &listing(common, state), false).unwrap();
        }
        Method::Watch | Method::Reload => return Err(WireError::expected_more("x")),
    }
    common.changed.notify_all();
    Ok(())
}

fn listing(common: &Common, state: &State) -> Listing {
    let principals = state.pages.keys().zip(&state.registered);
    let principals = principals
        .map(|(&id, r)| messages::Principal {
            id,
            pid: r.pid,
            page: (state.script == Script::PagesElsewhere)
                .then(|| page_of(common, state, id).display().to_string()),
            ..messages::Principal::default()
        })
        .collect();
    Listing {
        principals,
        ..Listing::default()
    }
}

fn register(common: &Common, state: &mut State, asked: Register) -> Result<Registered, WireError> {
    if state.script == Script::Refuses {
        return Err(WireError::new(
            ErrorName::TooMany,
            "full; raise max_principals",
        ));
    }
    let mut there = state.pages.keys().zip(&state.registered);
    if state.script == Script::Strict && there.any(|(_, r)| r.pid.is_some() && r.pid == asked.pid) {
        return Err(WireError::new(ErrorName::AlreadyRegistered, "it is one"));
    }
    let id = state.next_id;
    state.next_id += 1;
    let path = page_of(common, state, id);
    let image = match state.script {
        Script::WrongId => PageImage::new(77),
        _ => PageImage::new(id),
    };
    let mut page = Page {
        file: None,
        image,
        last: Numbers::default(),
    };
    if state.script == Script::PipeForPage {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
    } else if state.script != Script::NoPage {
        // As the real broker does, makes a new inode, so that readers of an old page of this name keep the
        // old one.
        let _ = std::fs::remove_file(&path);
        let file = File::create_new(&path).unwrap();
        file.set_len(if state.script == Script::ShortPage {
            100
        } else {
            PAGE_SIZE as u64
        })
        .unwrap();
        let mut bytes = page.image.create().bytes.to_vec();
        if state.script == Script::WrongVersion {
            bytes[8] = 9;
        }
        if state.script != Script::ShortPage {
            file.write_all_at(&bytes, 0).unwrap();
            page.file = Some(file);
        }
    }
    write_page(&mut page, state.first_numbers);
    state.pages.insert(id, page);
    let registered = Registered {
        id,
        page: path.to_str().unwrap().to_owned(),
        pressure: String::new(),
        cgroup: None,
        weight: asked.weight.unwrap_or_default().get(),
        priority: asked.priority.unwrap_or_default().get(),
    };
    state.registered.push(asked);
    Ok(registered)
}

fn page_of(common: &Common, state: &State, id: Id) -> PathBuf {
    let directory = match state.script {
        Script::PagesElsewhere => "elsewhere",
        _ => "pages",
    };
    common.directory.join(directory).join(id.to_string())
}

fn changed(id: Id, page: &Page) -> Changed {
    Changed {
        id,
        generation: page.image.generation(),
        numbers: page.last,
    }
}

pub(super) fn write_page(page: &mut Page, numbers: Numbers) {
    page.last = numbers;
    let steps = page.image.publish(&numbers, clock::now());
    if let Some(file) = &page.file {
        for step in steps {
            file.write_all_at(step.bytes, step.offset).unwrap();
            fence(Ordering::SeqCst);
        }
    }
}

pub(super) fn publish(state: &mut State, id: Id, numbers: Numbers) {
    let page = state.pages.get_mut(&id).unwrap();
    write_page(page, numbers);
    let mut out = Vec::new();
    encode_reply(&mut out, &changed(id, page), true).unwrap();
    for (whose, stream) in &mut state.subscribers {
        if *whose == id {
            let _ = stream.write_all(&out);
        }
    }
}
