"""The tables of the index: `<session>/records/index.sqlite`, described for users in docs/records.md.

Owns the names of tables, views and columns, and their version. Tables hold what was recorded, with numbers for names
and processes; views give it words, and are what `sundog sql` is for. Pure text.
"""

from __future__ import annotations

VERSION = 4

# What `attempts.flags` has beyond the flags of `events`.
LOST = 16  # told by the owner: its process died under it
UNRUN = 32  # told by the owner: no worker wrote a record of it

KINDS = {1: "NORMAL_TASK", 2: "ACTOR_TASK", 3: "ACTOR_CREATION_TASK"}

TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE names(id INTEGER PRIMARY KEY, text TEXT NOT NULL, code TEXT NOT NULL, function TEXT NOT NULL);
CREATE TABLE numbers(process INTEGER, number INTEGER, name INTEGER, PRIMARY KEY(process, number)) WITHOUT ROWID;
CREATE TABLE processes(
    id INTEGER PRIMARY KEY, process_id BLOB UNIQUE NOT NULL, node_id BLOB, pid INTEGER, role TEXT, job_id BLOB,
    actor_id BLOB, actor_name TEXT, repr_name TEXT, concurrent INTEGER, class_name TEXT, lease INTEGER,
    begun BLOB, begun_s REAL, begun_name INTEGER, line TEXT, own_bytes INTEGER,
    blocked_s REAL, blocked_kind INTEGER, blocked_on BLOB, blocked_task BLOB, blocked_site INTEGER,
    after INTEGER NOT NULL, names_at INTEGER NOT NULL, unwritten INTEGER NOT NULL, skipped INTEGER NOT NULL,
    holes INTEGER NOT NULL);
CREATE TABLE attempts(
    id INTEGER PRIMARY KEY, task_id BLOB NOT NULL, attempt INTEGER, kind INTEGER, name INTEGER, process INTEGER,
    submit_s REAL, start_s REAL, end_s REAL, flags INTEGER, cpu_s REAL, peak_bytes INTEGER, lease INTEGER);
CREATE INDEX attempts_failed ON attempts(task_id) WHERE flags & 1;
CREATE TABLE zones(
    first INTEGER PRIMARY KEY, last INTEGER, owner BLOB, low INTEGER, high INTEGER, submit_s REAL, start_s REAL,
    end_s REAL);
CREATE TABLE counts(name INTEGER, kind INTEGER, failed INTEGER, process INTEGER, count INTEGER, queued_s REAL);
CREATE TABLE spans(
    kind INTEGER, process INTEGER, start_s REAL, end_s REAL, object BLOB, size_bytes INTEGER, site INTEGER,
    count INTEGER, last INTEGER, flags INTEGER);
CREATE TABLE waited(
    task_id BLOB, kind INTEGER, process INTEGER, start_s REAL, end_s REAL, object BLOB, site INTEGER);
CREATE INDEX waited_task ON waited(task_id);
CREATE TABLE made(
    task_id BLOB, number INTEGER, kind INTEGER, process INTEGER, start_s REAL, end_s REAL, size_bytes INTEGER,
    site INTEGER, segment INTEGER, attempt INTEGER);
CREATE INDEX made_task ON made(task_id);
CREATE INDEX made_segment ON made(process, segment);
CREATE TABLE moves(
    at_s REAL, kind TEXT, node_id BLOB, maker BLOB, segment INTEGER, size_bytes INTEGER, seconds REAL, place TEXT);
CREATE INDEX moves_segment ON moves(maker, segment);
CREATE TABLE traffic(
    task_id BLOB, attempt INTEGER, by_value INTEGER, by_reference INTEGER, inline_out INTEGER,
    PRIMARY KEY(task_id, attempt)) WITHOUT ROWID;
CREATE TABLE samples(task_id BLOB, process INTEGER, at_s REAL, own_bytes INTEGER, line INTEGER, cpu_s REAL,
    threads INTEGER);
CREATE TABLE errors(task_id BLOB, attempt INTEGER, type TEXT, message TEXT, in_order INTEGER);
CREATE INDEX errors_task ON errors(task_id);
CREATE TABLE failures(task_id BLOB, attempt INTEGER, facts TEXT);
CREATE INDEX failures_task ON failures(task_id);
CREATE TABLE sites(owner BLOB, name TEXT, first INTEGER, site TEXT);
CREATE INDEX sites_first ON sites(owner, name, first);
CREATE TABLE packets(
    owner BLOB, last INTEGER, first INTEGER, sent_s REAL, count INTEGER, bytes INTEGER,
    PRIMARY KEY(owner, last, first, sent_s)) WITHOUT ROWID;
CREATE TABLE ready(task_id BLOB, ready_s REAL, made_by INTEGER);
CREATE TABLE leased(owner BLOB, worker BLOB, granted_s REAL);
CREATE INDEX ready_task ON ready(task_id);
CREATE INDEX leased_worker ON leased(owner, worker);
CREATE TABLE facts(at_s REAL, kind TEXT, node_id BLOB, subject TEXT, json TEXT);
CREATE INDEX facts_kind ON facts(kind, subject);
CREATE TABLE machine(
    at_s REAL, node_id BLOB, cpu REAL, memory_used INTEGER, memory_total INTEGER, store_used INTEGER,
    store_total INTEGER, spilled_bytes INTEGER, descriptors INTEGER, disk_free INTEGER, workers INTEGER,
    load REAL);
"""

# Of a row of `made`: its task, and its number in four bytes, the lowest first.
_OBJECT_ID = (
    "lower(hex(m.task_id)) || printf('%02x%02x%02x%02x', m.number & 255, m.number >> 8 & 255, m.number >> 16 & 255, "
    "m.number >> 24 & 255)"
)

VIEWS = """
CREATE VIEW tasks AS SELECT
    lower(hex(a.task_id)) AS task_id, a.attempt AS attempt,
    CASE WHEN n.function != '' THEN n.function ELSE n.text END AS function, n.text AS name,
    CASE a.kind WHEN 1 THEN 'NORMAL_TASK' WHEN 2 THEN 'ACTOR_TASK' ELSE 'ACTOR_CREATION_TASK' END AS type,
    CASE WHEN a.flags & 1 THEN 'FAILED' ELSE 'FINISHED' END AS state,
    a.submit_s AS submit_s, a.start_s AS start_s, a.end_s AS end_s, a.end_s - a.start_s AS duration_s,
    a.start_s - a.submit_s AS queued_s, a.cpu_s AS cpu_s, a.peak_bytes AS peak_bytes,
    lower(hex(p.process_id)) AS worker_id, p.pid AS pid, lower(hex(p.node_id)) AS node_id,
    lower(hex(p.job_id)) AS job_id, lower(hex(substr(a.task_id, 1, 8))) AS owner_id,
    CASE WHEN a.kind != 1 THEN lower(hex(p.actor_id)) END AS actor_id, n.code AS code,
    (a.flags & 16) != 0 AS lost, (a.flags & 2) != 0 AS measured,
    t.by_value + t.by_reference AS bytes_in, t.by_value AS bytes_by_value,
    coalesce(t.inline_out, 0) + coalesce((SELECT sum(m.size_bytes) FROM made m WHERE m.task_id = a.task_id
        AND m.kind = 14 AND m.attempt = a.attempt), 0) AS bytes_out,
    (SELECT sum(s.end_s - s.start_s) FROM waited s WHERE s.task_id = a.task_id AND s.start_s >= a.start_s
        AND s.start_s <= a.end_s AND s.process = a.process) AS blocked_s
    FROM attempts a LEFT JOIN names n ON n.id = a.name LEFT JOIN processes p ON p.id = a.process
    LEFT JOIN traffic t ON t.task_id = a.task_id AND t.attempt = a.attempt
    WHERE NOT a.flags & 4;
CREATE VIEW gets AS SELECT
    CASE s.kind WHEN 4 THEN 'get' WHEN 5 THEN 'put' ELSE 'wait' END AS kind, s.start_s AS start_s, s.end_s AS end_s,
    s.end_s - s.start_s AS duration_s, lower(hex(s.object)) AS object_id, s.size_bytes AS size_bytes,
    n.text AS call_site, lower(hex(p.process_id)) AS process_id, p.pid AS pid, p.role AS role,
    lower(hex(p.node_id)) AS node_id
    FROM spans s LEFT JOIN processes p ON p.id = s.process LEFT JOIN names n ON n.id = s.site;
CREATE VIEW waits AS SELECT
    lower(hex(s.task_id)) AS task_id, CASE s.kind WHEN 4 THEN 'get' ELSE 'wait' END AS kind, s.start_s AS start_s,
    s.end_s AS end_s, s.end_s - s.start_s AS duration_s, lower(hex(s.object)) AS object_id, n.text AS call_site,
    lower(hex(p.process_id)) AS process_id, p.pid AS pid, lower(hex(p.node_id)) AS node_id
    FROM waited s LEFT JOIN processes p ON p.id = s.process LEFT JOIN names n ON n.id = s.site;
CREATE VIEW objects AS SELECT
    {object_id} AS object_id, CASE m.kind WHEN 5 THEN 'put' WHEN 14 THEN 'result' ELSE 'argument' END AS kind,
    m.size_bytes AS size_bytes, m.start_s AS start_s, m.end_s AS end_s, n.text AS call_site,
    CASE m.kind WHEN 14 THEN lower(hex(m.task_id)) END AS task_id, m.attempt AS attempt,
    lower(hex(substr(m.task_id, 1, 8))) AS owner_id, lower(hex(p.process_id)) AS process_id, p.pid AS pid,
    p.role AS role,
    lower(hex(p.node_id)) AS node_id, m.segment AS segment
    FROM made m LEFT JOIN processes p ON p.id = m.process LEFT JOIN names n ON n.id = m.site;
CREATE VIEW spills AS SELECT
    v.at_s AS at_s, v.kind AS kind, {object_id} AS object_id, v.size_bytes AS size_bytes,
    v.seconds AS seconds, v.place AS place, lower(hex(v.node_id)) AS node_id
    FROM moves v LEFT JOIN processes p ON p.process_id = v.maker
    LEFT JOIN made m ON m.process = p.id AND m.segment = v.segment;
CREATE VIEW blocked AS SELECT
    lower(hex(p.process_id)) AS process_id, p.pid AS pid, p.role AS role,
    CASE p.blocked_kind WHEN 4 THEN 'get' ELSE 'wait' END AS kind, p.blocked_s AS since_s,
    lower(hex(p.blocked_on)) AS object_id, nullif(lower(hex(p.blocked_task)), '') AS task_id,
    n.text AS call_site
    FROM processes p LEFT JOIN names n ON n.id = p.blocked_site WHERE p.blocked_s > 0;
CREATE VIEW failed AS SELECT
    lower(hex(e.task_id)) AS task_id, e.attempt AS attempt, e.type AS type, e.message AS message FROM errors e;
CREATE VIEW lines AS SELECT
    lower(hex(s.task_id)) AS task_id, s.at_s AS at_s, s.own_bytes AS own_bytes, n.text AS line, p.pid AS pid
    FROM samples s LEFT JOIN names n ON n.id = s.line LEFT JOIN processes p ON p.id = s.process;
CREATE VIEW events AS SELECT f.at_s AS at_s, f.kind AS kind, f.subject AS subject,
    lower(hex(f.node_id)) AS node_id, f.json AS json FROM facts f;
CREATE VIEW workers AS SELECT
    lower(hex(p.process_id)) AS worker_id, p.pid AS pid, p.role AS role, lower(hex(p.job_id)) AS job_id,
    lower(hex(p.actor_id)) AS actor_id, p.class_name AS class_name, lower(hex(p.node_id)) AS node_id,
    p.after AS events, max(p.unwritten, p.skipped) + p.holes AS events_missed FROM processes p;
CREATE VIEW machines AS SELECT at_s, lower(hex(node_id)) AS node_id, cpu, memory_used, memory_total, store_used,
    store_total, spilled_bytes, descriptors, disk_free, workers, load FROM machine;
""".replace("{object_id}", _OBJECT_ID)
