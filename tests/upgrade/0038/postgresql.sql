SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.alert (
    key character varying(64) NOT NULL,
    rule character varying(64) NOT NULL,
    alert character varying(32) NOT NULL,
    subject text NOT NULL,
    message text NOT NULL,
    since timestamp with time zone NOT NULL,
    is_fired boolean DEFAULT false NOT NULL
);
CREATE TABLE public.api_session (
    id_hash character varying(64) NOT NULL,
    token_id character varying(36) NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.api_token (
    id character varying(36) NOT NULL,
    subject character varying(250) NOT NULL,
    role character varying(16) NOT NULL,
    token_hash character varying(64) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    name character varying(250),
    lifetime_seconds integer,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone
);
CREATE TABLE public.asset (
    id bigint NOT NULL,
    name character varying(1500) NOT NULL,
    uri character varying(1500) NOT NULL,
    "group" character varying(1500) DEFAULT ''::character varying NOT NULL,
    extra text DEFAULT '{}'::text NOT NULL,
    origin character varying(8) NOT NULL,
    active boolean DEFAULT true NOT NULL,
    expect_every_seconds integer,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    partition_parts text,
    expect_by text
);
CREATE TABLE public.asset_alias (
    id bigint NOT NULL,
    name character varying(250) NOT NULL,
    "group" character varying(1500) DEFAULT ''::character varying NOT NULL,
    active boolean DEFAULT true NOT NULL
);
CREATE TABLE public.asset_alias_asset (
    alias_id bigint NOT NULL,
    asset_id bigint NOT NULL
);
CREATE TABLE public.asset_alias_event (
    alias_id bigint NOT NULL,
    event_id bigint NOT NULL
);
CREATE SEQUENCE public.asset_alias_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.asset_alias_id_seq OWNED BY public.asset_alias.id;
CREATE TABLE public.asset_event (
    id bigint NOT NULL,
    asset_id bigint NOT NULL,
    extra text DEFAULT '{}'::text NOT NULL,
    "timestamp" timestamp with time zone NOT NULL,
    event_id character varying(64),
    trace_id character varying(32) NOT NULL,
    source_dag_id character varying(250),
    source_run_id character varying(250),
    source_task_id character varying(250),
    source_map_index integer DEFAULT '-1'::integer NOT NULL,
    source_watcher character varying(250),
    source_actor character varying(250),
    sketch_low bigint,
    sketch_high bigint,
    sketch_bits bigint,
    partition_key character varying(250),
    sketch_more_bits bigint
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.02');
CREATE SEQUENCE public.asset_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.asset_event_id_seq OWNED BY public.asset_event.id;
CREATE TABLE public.asset_forward (
    asset_id bigint NOT NULL,
    target character varying(1500) NOT NULL,
    with_partition_key boolean DEFAULT false NOT NULL
);
CREATE SEQUENCE public.asset_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.asset_id_seq OWNED BY public.asset.id;
CREATE TABLE public.asset_store (
    asset_id bigint NOT NULL,
    key character varying(512) NOT NULL,
    value text NOT NULL,
    is_ref boolean DEFAULT false NOT NULL,
    version bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    last_updated_by_kind character varying(16),
    last_updated_by_dag_id character varying(250),
    last_updated_by_run_id character varying(250),
    last_updated_by_task_id character varying(250),
    last_updated_by_map_index integer,
    last_updated_by_watcher character varying(250),
    last_updated_by_actor character varying(250),
    last_updated_by_write_id character varying(64)
);
CREATE TABLE public.asset_store_history (
    asset_id bigint NOT NULL,
    key character varying(512) NOT NULL,
    version bigint NOT NULL,
    value text,
    is_ref boolean DEFAULT false NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    written_at timestamp with time zone NOT NULL,
    kind character varying(16),
    dag_id character varying(250),
    run_id character varying(250),
    task_id character varying(250),
    map_index integer,
    try_number integer,
    watcher character varying(250),
    actor character varying(250),
    write_id character varying(64)
);
CREATE TABLE public.asset_store_increment (
    task_instance_id character varying(36) NOT NULL,
    asset_id bigint NOT NULL,
    ordinal integer NOT NULL
);
CREATE TABLE public.audit (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    actor character varying(250) NOT NULL,
    action character varying(64) NOT NULL,
    target character varying(2000) NOT NULL,
    detail text DEFAULT '{}'::text NOT NULL,
    write_id character varying(64)
);
CREATE SEQUENCE public.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_id_seq OWNED BY public.audit.id;
CREATE TABLE public.cleaning (
    event_id bigint NOT NULL,
    watcher character varying(250) NOT NULL,
    owed text NOT NULL,
    state character varying(16) NOT NULL,
    reason character varying(16),
    due_at timestamp with time zone,
    passes integer DEFAULT 0 NOT NULL,
    next_file integer DEFAULT 0 NOT NULL,
    files text,
    staying text DEFAULT '{}'::text NOT NULL,
    working text,
    removed integer DEFAULT 0 NOT NULL
);
CREATE TABLE public.dispatcher (
    home_id character varying(36) NOT NULL,
    host character varying(255) NOT NULL,
    pid integer NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    configuration character varying(64)
);
CREATE TABLE public.dropped_event (
    dag_id character varying(250) NOT NULL,
    event_id bigint NOT NULL,
    reason character varying(32) NOT NULL,
    actor character varying(250),
    dropped_at timestamp with time zone NOT NULL
);
CREATE TABLE public.execution_answer (
    task_instance_id character varying(36) NOT NULL,
    key character varying(255) NOT NULL,
    request character varying(64) NOT NULL,
    status integer NOT NULL,
    body text,
    created_at timestamp with time zone NOT NULL
);
CREATE TABLE public.job (
    dag_id character varying(250) NOT NULL,
    task_id character varying(250) NOT NULL,
    active boolean DEFAULT true NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    definition text NOT NULL,
    cron character varying(1000),
    clock character varying(1000),
    next_tick timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    rest_to bigint,
    rest_completed_by bigint,
    replay_id bigint,
    joint boolean DEFAULT false NOT NULL,
    partitioned boolean DEFAULT false NOT NULL,
    catchup_at bigint,
    catchup_to bigint,
    catchup_assets text
);
CREATE TABLE public.job_inlet (
    dag_id character varying(250) NOT NULL,
    asset_id bigint NOT NULL
);
CREATE TABLE public.job_inlet_alias (
    dag_id character varying(250) NOT NULL,
    alias_id bigint NOT NULL
);
CREATE TABLE public.job_outlet (
    dag_id character varying(250) NOT NULL,
    asset_id bigint NOT NULL
);
CREATE TABLE public.job_outlet_alias (
    dag_id character varying(250) NOT NULL,
    alias_id bigint NOT NULL
);
CREATE TABLE public.job_schedule_alias (
    dag_id character varying(250) NOT NULL,
    alias_id bigint NOT NULL,
    filtered boolean DEFAULT false NOT NULL
);
CREATE TABLE public.job_schedule_asset (
    dag_id character varying(250) NOT NULL,
    asset_id bigint NOT NULL,
    filtered boolean DEFAULT false NOT NULL
);
CREATE TABLE public.leader (
    id integer NOT NULL,
    owner character varying(36) NOT NULL,
    epoch bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    start_reasons text
);
CREATE TABLE public.listen_position (
    source character varying(1500) NOT NULL,
    newest timestamp with time zone
);
CREATE TABLE public.listen_seen (
    source character varying(1500) NOT NULL,
    event_id bigint NOT NULL,
    "timestamp" timestamp with time zone NOT NULL
);
CREATE TABLE public.outbox (
    id bigint NOT NULL,
    destination character varying(64) NOT NULL,
    lane character varying(250) NOT NULL,
    message_id character varying(250),
    asset_event_id bigint,
    body text,
    created_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    first_attempt_at timestamp with time zone,
    attempt_at timestamp with time zone,
    not_before timestamp with time zone,
    refused boolean DEFAULT false NOT NULL,
    error text
);
CREATE SEQUENCE public.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.outbox_id_seq OWNED BY public.outbox.id;
CREATE TABLE public.partition_group (
    dag_id character varying(250) NOT NULL,
    key character varying(250) NOT NULL,
    rest_to bigint,
    rest_completed_by bigint
);
CREATE TABLE public.queued_event (
    dag_id character varying(250) NOT NULL,
    event_id bigint NOT NULL,
    asset_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    partition_key character varying(250),
    satisfies character varying(2000) DEFAULT ''::character varying NOT NULL
);
CREATE TABLE public.rejected_item (
    watcher character varying(250) NOT NULL,
    digest character varying(64) NOT NULL,
    key text NOT NULL,
    version text NOT NULL,
    column_name text,
    code character varying(16) NOT NULL,
    reason text NOT NULL,
    rejected_at timestamp with time zone NOT NULL,
    retry_at timestamp with time zone
);
CREATE TABLE public.replay (
    id bigint NOT NULL,
    dag_id character varying(250) NOT NULL,
    asset_id bigint,
    partition_key character varying(250),
    from_at timestamp with time zone NOT NULL,
    to_at timestamp with time zone NOT NULL,
    include_dropped boolean NOT NULL,
    expected_count bigint NOT NULL,
    last_event bigint NOT NULL,
    last_run bigint NOT NULL,
    at_event bigint DEFAULT '0'::bigint NOT NULL,
    at_run bigint DEFAULT '0'::bigint NOT NULL,
    queued_events bigint DEFAULT '0'::bigint NOT NULL,
    cleared_runs bigint DEFAULT '0'::bigint NOT NULL,
    actor character varying(250) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone
);
CREATE SEQUENCE public.replay_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.replay_id_seq OWNED BY public.replay.id;
CREATE TABLE public.run (
    id bigint NOT NULL,
    dag_id character varying(250) NOT NULL,
    run_id character varying(250) NOT NULL,
    run_type character varying(32) NOT NULL,
    triggered_by character varying(32) NOT NULL,
    state character varying(16) NOT NULL,
    reason text,
    warning text,
    conf text DEFAULT '{}'::text NOT NULL,
    note text,
    trace_id character varying(32) NOT NULL,
    logical_date timestamp with time zone,
    data_interval_start timestamp with time zone,
    data_interval_end timestamp with time zone,
    run_after timestamp with time zone NOT NULL,
    queued_at timestamp with time zone NOT NULL,
    start_date timestamp with time zone,
    end_date timestamp with time zone,
    bad_records bigint,
    bad_records_resolved_at timestamp with time zone,
    partition_key character varying(250),
    partition_complete boolean,
    late boolean DEFAULT false NOT NULL
);
CREATE TABLE public.run_asset_event (
    dag_id character varying(250) NOT NULL,
    event_id bigint NOT NULL,
    run_id character varying(250) NOT NULL,
    completed boolean DEFAULT false NOT NULL
);
CREATE SEQUENCE public.run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.run_id_seq OWNED BY public.run.id;
CREATE TABLE public.setting (
    key character varying(64) NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.task_instance (
    id character varying(36) NOT NULL,
    dag_id character varying(250) NOT NULL,
    run_id character varying(250) NOT NULL,
    task_id character varying(250) NOT NULL,
    map_index integer DEFAULT '-1'::integer NOT NULL,
    origin character varying(8) DEFAULT 'own'::character varying NOT NULL,
    try_number integer DEFAULT 0 NOT NULL,
    state character varying(24) NOT NULL,
    detail text,
    not_before timestamp with time zone,
    start_date timestamp with time zone,
    end_date timestamp with time zone
);
CREATE TABLE public.task_store (
    dag_id character varying(250) NOT NULL,
    run_id character varying(250) NOT NULL,
    task_id character varying(250) NOT NULL,
    map_index integer NOT NULL,
    key character varying(512) NOT NULL,
    value text NOT NULL,
    is_ref boolean DEFAULT false NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    never_expire boolean DEFAULT false NOT NULL
);
CREATE TABLE public.task_try (
    task_instance_id character varying(36) NOT NULL,
    try_number integer NOT NULL,
    home_id character varying(36) NOT NULL,
    tag character varying(64) NOT NULL,
    token_hash character varying(64) NOT NULL,
    handle text,
    nonce character varying(64),
    finish_state character varying(16),
    message text,
    progress text,
    exit_code integer,
    counted boolean DEFAULT true NOT NULL,
    intent_at timestamp with time zone NOT NULL,
    submitted_at timestamp with time zone,
    claimed_at timestamp with time zone,
    cancelled_at timestamp with time zone,
    ended_at timestamp with time zone,
    submitter character varying(250) DEFAULT 'spark-submit'::character varying NOT NULL,
    first_action_at timestamp with time zone,
    cost text,
    is_final boolean DEFAULT false NOT NULL,
    renewed_at timestamp with time zone,
    forget_at timestamp with time zone,
    lease_holder character varying(64)
);
CREATE TABLE public.triggerer (
    id character varying(36) NOT NULL,
    host character varying(255) NOT NULL,
    pid integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    capacity integer DEFAULT 10000 NOT NULL,
    configuration character varying(64),
    definitions text
);
CREATE TABLE public.watcher (
    name character varying(250) NOT NULL,
    asset_id bigint NOT NULL,
    trigger character varying(1000) NOT NULL,
    active boolean DEFAULT true NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    state character varying(16) DEFAULT 'stopped'::character varying NOT NULL,
    error text,
    error_count integer DEFAULT 0 NOT NULL,
    last_poll_at timestamp with time zone,
    last_event_at timestamp with time zone,
    lag_seconds integer,
    up_to text,
    up_to_version bigint,
    definition character varying(64),
    findings text,
    polls text,
    failing_since timestamp with time zone,
    next_try_at timestamp with time zone
);
CREATE TABLE public.watcher_asset (
    watcher character varying(250) NOT NULL,
    asset_id bigint NOT NULL,
    active boolean DEFAULT true NOT NULL
);
CREATE TABLE public.watcher_position (
    watcher character varying(250) NOT NULL,
    source_identity text,
    owner character varying(36),
    epoch bigint DEFAULT '0'::bigint NOT NULL,
    version bigint DEFAULT '0'::bigint NOT NULL,
    watermark text,
    state text,
    previous text,
    updated_at timestamp with time zone,
    format integer DEFAULT 1 NOT NULL,
    undo_ended text
);
CREATE TABLE public.watcher_position_chunk (
    watcher character varying(250) NOT NULL,
    number bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE public.watcher_position_row (
    watcher character varying(250) NOT NULL,
    member bigint NOT NULL,
    value bigint NOT NULL
);
ALTER TABLE ONLY public.asset ALTER COLUMN id SET DEFAULT nextval('public.asset_id_seq'::regclass);
ALTER TABLE ONLY public.asset_alias ALTER COLUMN id SET DEFAULT nextval('public.asset_alias_id_seq'::regclass);
ALTER TABLE ONLY public.asset_event ALTER COLUMN id SET DEFAULT nextval('public.asset_event_id_seq'::regclass);
ALTER TABLE ONLY public.audit ALTER COLUMN id SET DEFAULT nextval('public.audit_id_seq'::regclass);
ALTER TABLE ONLY public.outbox ALTER COLUMN id SET DEFAULT nextval('public.outbox_id_seq'::regclass);
ALTER TABLE ONLY public.replay ALTER COLUMN id SET DEFAULT nextval('public.replay_id_seq'::regclass);
ALTER TABLE ONLY public.run ALTER COLUMN id SET DEFAULT nextval('public.run_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0038');
INSERT INTO public.asset VALUES (1, 'inbox', 'inbox', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:24:19.949657+00', '2026-11-28 17:24:19.949657+00', NULL, NULL);
INSERT INTO public.asset VALUES (2, 'numbers', 'numbers', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:24:19.94993+00', '2026-11-28 17:24:19.94993+00', NULL, NULL);
INSERT INTO public.asset VALUES (3, 'loaded', 'loaded', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:24:19.949939+00', '2026-11-28 17:24:19.949939+00', NULL, NULL);
INSERT INTO public.asset VALUES (4, 'slow', 'slow', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:24:19.949942+00', '2026-11-28 17:24:19.949942+00', NULL, NULL);
INSERT INTO public.asset VALUES (5, 'all', 'all', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:24:19.949944+00', '2026-11-28 17:24:19.949944+00', NULL, NULL);
INSERT INTO public.asset VALUES (6, 'days', 'days', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:24:19.949947+00', '2026-11-28 17:24:19.949947+00', '["day", "region"]', NULL);
INSERT INTO public.asset VALUES (7, 'notes', 'notes', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:24:19.94995+00', '2026-11-28 17:24:19.94995+00', '["day", "region"]', NULL);
INSERT INTO public.asset_alias VALUES (1, 'parts', 'asset', true);
INSERT INTO public.asset_event VALUES (1, 1, '{"watcher": "inbox_files", "event_id": "9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59", "count": 1, "watermark": {"from": "2026-11-28T17:24:20.364753Z", "to": "2026-11-28T17:24:20.614009Z"}, "files": [{"path": "/the/folder/inbox/a.csv", "size": 5, "last_modified": "2026-11-28T17:24:20.551743Z", "inode": 9987788}]}', '2026-11-28 17:24:20.646577+00', '9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59', 'bfa5881ded88ec70bbf2b4ff08d00102', NULL, NULL, NULL, -1, 'inbox_files', NULL, NULL, NULL, 4611686018427455488, NULL, NULL);
INSERT INTO public.asset_event VALUES (2, 3, '{}', '2026-11-28 17:24:21.114253+00', NULL, 'bfa5881ded88ec70bbf2b4ff08d00102', 'load', 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', 'load', -1, NULL, NULL, NULL, NULL, 0, NULL, NULL);
INSERT INTO public.asset_event VALUES (3, 1, '{"watcher": "inbox_files", "event_id": "c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc", "count": 1, "watermark": {"from": "2026-11-28T17:24:20.614009Z", "to": "2026-11-28T17:24:21.457141Z"}, "files": [{"path": "/the/folder/inbox/b.csv", "size": 5, "last_modified": "2026-11-28T17:24:21.273490Z", "inode": 9987797}]}', '2026-11-28 17:24:21.479925+00', 'c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc', '4bad9c46fc3d9a59e0f433fcc4ac7036', NULL, NULL, NULL, -1, 'inbox_files', NULL, NULL, NULL, 633593575505920, NULL, NULL);
INSERT INTO public.asset_event VALUES (4, 3, '{}', '2026-11-28 17:24:21.696793+00', NULL, '4bad9c46fc3d9a59e0f433fcc4ac7036', 'load', 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', 'load', -1, NULL, NULL, NULL, NULL, 0, NULL, NULL);
INSERT INTO public.asset_event VALUES (5, 6, '{"watcher": "day_files", "event_id": "190f3c7238390d8eb108d24f5a891ba66af75ea23c45690fa290e822e5b159e2", "count": 1, "watermark": {"from": "2026-11-28T17:24:20.364636Z", "to": "2026-11-28T17:24:21.876319Z"}, "files": [{"path": "/the/folder/days/dt=1/region=eu/d.csv", "size": 5, "last_modified": "2026-11-28T17:24:21.730351Z", "inode": 9987853}]}', '2026-11-28 17:24:21.906168+00', '190f3c7238390d8eb108d24f5a891ba66af75ea23c45690fa290e822e5b159e2', '283202c4cdfaa83118a2b355ea69e55f', NULL, NULL, NULL, -1, 'day_files', NULL, NULL, NULL, 18014437164187648, '1|eu', NULL);
INSERT INTO public.asset_event VALUES (6, 6, '{"watcher": "day_files", "event_id": "990de6247465af730f7eb8e98468791b3cbf725c2fa77b92b9a9722c3cc3bf98", "count": 1, "watermark": {"from": "2026-11-28T17:24:20.364636Z", "to": "2026-11-28T17:24:21.876319Z"}, "files": [{"path": "/the/folder/days/dt=1/region=us/e.csv", "size": 5, "last_modified": "2026-11-28T17:24:21.730449Z", "inode": 9987855}]}', '2026-11-28 17:24:21.906257+00', '990de6247465af730f7eb8e98468791b3cbf725c2fa77b92b9a9722c3cc3bf98', '9f926bfcd37ff3442a4ee2f721a23f75', NULL, NULL, NULL, -1, 'day_files', NULL, NULL, NULL, 40532396646334976, '1|us', NULL);
INSERT INTO public.asset_event VALUES (7, 6, '{"watcher": "day_files", "event_id": "98780f5bd2dd73f9cb881ea1945973a42992633f9baf0730cdcb2ecf4560a3b7", "count": 1, "watermark": {"from": "2026-11-28T17:24:20.364636Z", "to": "2026-11-28T17:24:21.876319Z"}, "files": [{"path": "/the/folder/days/dt=2/region=eu/f.csv", "size": 5, "last_modified": "2026-11-28T17:24:21.730574Z", "inode": 9987859}]}', '2026-11-28 17:24:21.906264+00', '98780f5bd2dd73f9cb881ea1945973a42992633f9baf0730cdcb2ecf4560a3b7', 'f0c95c7affc11b89efc8c9ea61a725f3', NULL, NULL, NULL, -1, 'day_files', NULL, NULL, NULL, 35184372088992, '2|eu', NULL);
INSERT INTO public.asset_event VALUES (8, 3, '{}', '2026-11-28 17:24:22.330629+00', NULL, '9f926bfcd37ff3442a4ee2f721a23f75', 'daily', 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', 'load', -1, NULL, NULL, NULL, NULL, 0, '1', NULL);
INSERT INTO public.asset_event VALUES (9, 2, '{"watcher": "number_files", "event_id": "4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2", "count": 1, "watermark": {"from": "2026-11-28T17:24:20.364835Z", "to": "2026-11-28T17:24:22.749668Z"}, "files": [{"path": "/the/folder/numbers/one.csv", "size": 7, "last_modified": "2026-11-28T17:24:22.670417Z", "inode": 9987865}]}', '2026-11-28 17:24:22.772021+00', '4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2', '39f9aec5aea7f40721e53d58325c39a0', NULL, NULL, NULL, -1, 'number_files', NULL, NULL, NULL, 2485986994308513792, NULL, NULL);
INSERT INTO public.asset_forward VALUES (3, 'theirs', false);
INSERT INTO public.asset_store VALUES (3, 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', '["a.csv"]', false, 1, '2026-11-28 17:24:21.084713+00', 'task', 'load', 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', 'load', -1, NULL, NULL, '0067bbfdc20c45528af7d4e2e5dc5075');
INSERT INTO public.asset_store VALUES (1, 'inbox_files.watermark', '{"up_to": "2026-11-28T17:24:21.457141Z", "horizon": null, "seen": 2, "scan": null}', false, 3, '2026-11-28 17:24:21.483027+00', 'watcher', NULL, NULL, NULL, NULL, 'inbox_files', NULL, '345ab49b957a44bf64748d8a9c3092f0');
INSERT INTO public.asset_store VALUES (3, 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', '["b.csv"]', false, 1, '2026-11-28 17:24:21.684653+00', 'task', 'load', 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', 'load', -1, NULL, NULL, '9c652930f06a4785a83d0f34ba8f44da');
INSERT INTO public.asset_store VALUES (6, 'day_files.watermark', '{"up_to": "2026-11-28T17:24:21.876319Z", "horizon": null, "seen": 3, "scan": null}', false, 2, '2026-11-28 17:24:21.911774+00', 'watcher', NULL, NULL, NULL, NULL, 'day_files', NULL, '7c799c755534c44aa24a2b8998f89f78');
INSERT INTO public.asset_store VALUES (3, 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', '["d.csv", "e.csv"]', false, 1, '2026-11-28 17:24:22.318822+00', 'task', 'daily', 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', 'load', -1, NULL, NULL, '8f8706f9e6d04641a1cff852f3f6f41d');
INSERT INTO public.asset_store VALUES (2, 'number_files.watermark', '{"up_to": "2026-11-28T17:24:22.749668Z", "horizon": null, "seen": 1, "scan": null}', false, 2, '2026-11-28 17:24:22.775207+00', 'watcher', NULL, NULL, NULL, NULL, 'number_files', NULL, '9b1392f9c577c82b6c8f324b7e57bef4');
INSERT INTO public.asset_store VALUES (4, 'began', '"asset_triggered__2026-11-28T17:24:22.790598+00:00_0"', false, 1, '2026-11-28 17:24:23.087305+00', 'task', 'slow', 'asset_triggered__2026-11-28T17:24:22.790598+00:00_0', 'slow', -1, NULL, NULL, '9dcf892cc73d47309afc10edd8578958');
INSERT INTO public.asset_store_history VALUES (6, 'day_files.watermark', 1, '{"up_to": "2026-11-28T17:24:20.364636Z", "horizon": null, "seen": 0, "scan": null}', false, false, '2026-11-28 17:24:20.407732+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'day_files', NULL, 'e2458d8bcfb267b70724d92d6691fc77');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 1, '{"up_to": "2026-11-28T17:24:20.364753Z", "horizon": null, "seen": 0, "scan": null}', false, false, '2026-11-28 17:24:20.433285+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '802c94251464c921c688d77419e57b82');
INSERT INTO public.asset_store_history VALUES (2, 'number_files.watermark', 1, '{"up_to": "2026-11-28T17:24:20.364835Z", "horizon": null, "seen": 0, "scan": null}', false, false, '2026-11-28 17:24:20.433338+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'number_files', NULL, '0dcdcf5e7ffa341d7436b8df0abca8fc');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 2, '{"up_to": "2026-11-28T17:24:20.614009Z", "horizon": null, "seen": 1, "scan": null}', false, false, '2026-11-28 17:24:20.651626+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, 'ad05f8b5f15927a28a9043cf418a73bc');
INSERT INTO public.asset_store_history VALUES (3, 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', 1, '["a.csv"]', false, false, '2026-11-28 17:24:21.084763+00', 'task', 'load', 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', 'load', -1, 1, NULL, NULL, '0067bbfdc20c45528af7d4e2e5dc5075');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 3, '{"up_to": "2026-11-28T17:24:21.457141Z", "horizon": null, "seen": 2, "scan": null}', false, false, '2026-11-28 17:24:21.483027+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '345ab49b957a44bf64748d8a9c3092f0');
INSERT INTO public.asset_store_history VALUES (3, 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', 1, '["b.csv"]', false, false, '2026-11-28 17:24:21.684682+00', 'task', 'load', 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', 'load', -1, 1, NULL, NULL, '9c652930f06a4785a83d0f34ba8f44da');
INSERT INTO public.asset_store_history VALUES (6, 'day_files.watermark', 2, '{"up_to": "2026-11-28T17:24:21.876319Z", "horizon": null, "seen": 3, "scan": null}', false, false, '2026-11-28 17:24:21.911774+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'day_files', NULL, '7c799c755534c44aa24a2b8998f89f78');
INSERT INTO public.asset_store_history VALUES (3, 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', 1, '["d.csv", "e.csv"]', false, false, '2026-11-28 17:24:22.31884+00', 'task', 'daily', 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', 'load', -1, 1, NULL, NULL, '8f8706f9e6d04641a1cff852f3f6f41d');
INSERT INTO public.asset_store_history VALUES (2, 'number_files.watermark', 2, '{"up_to": "2026-11-28T17:24:22.749668Z", "horizon": null, "seen": 1, "scan": null}', false, false, '2026-11-28 17:24:22.775207+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'number_files', NULL, '9b1392f9c577c82b6c8f324b7e57bef4');
INSERT INTO public.asset_store_history VALUES (4, 'began', 1, '"asset_triggered__2026-11-28T17:24:22.790598+00:00_0"', false, false, '2026-11-28 17:24:23.087323+00', 'task', 'slow', 'asset_triggered__2026-11-28T17:24:22.790598+00:00_0', 'slow', -1, 1, NULL, NULL, '9dcf892cc73d47309afc10edd8578958');
INSERT INTO public.audit VALUES (1, '2026-11-28 17:24:20.501607+00', 'anonymous', 'job.pause', 'held', '{}', '0f1b4468ec3f47db9fbf4fc1de7eeae3');
INSERT INTO public.audit VALUES (2, '2026-11-28 17:24:22.455137+00', 'anonymous', 'queued_events.delete', 'aliased', '{"asset_id": null, "events": 2}', '515cf8f27211453fa7ebdd6a67b3aecc');
INSERT INTO public.audit VALUES (3, '2026-11-28 17:24:22.537747+00', 'anonymous', 'job.replay', 'aliased', '{"replay_id": 1, "from": "2020-01-01T00:00:00+00:00", "to": "2100-01-01T00:00:00+00:00", "asset": null, "partition": null, "include_dropped": true, "events": 2}', '3a305114b4ff47c281ea10f0515642c7');
INSERT INTO public.audit VALUES (4, '2026-11-28 17:24:22.666776+00', 'anonymous', 'queued_events.delete', 'aliased', '{"asset_id": null, "events": 2}', 'e60e8ff3aa9545a6a05428a165be675b');
INSERT INTO public.cleaning VALUES (5, 'day_files', '["daily"]', 'waiting', NULL, '2026-12-05 17:24:21.926916+00', 0, 0, NULL, '{}', NULL, 0);
INSERT INTO public.cleaning VALUES (6, 'day_files', '["daily"]', 'waiting', NULL, '2026-12-05 17:24:21.927181+00', 0, 0, NULL, '{}', NULL, 0);
INSERT INTO public.cleaning VALUES (7, 'day_files', '["daily"]', 'waiting', NULL, '2026-12-05 17:24:21.927188+00', 0, 0, NULL, '{}', NULL, 0);
INSERT INTO public.dispatcher VALUES ('a40f4975-408f-466c-a313-cc6ba3e73125', 'vm', 16672, '2026-11-28 17:24:21.904721+00', '2026-11-28 17:24:26.904721+00', 'e4ef634e47133d68a5d2fb813347860f903a41b2a39f6647c136009046eb94fd');
INSERT INTO public.dropped_event VALUES ('aliased', 1, 'deleted', 'anonymous', '2026-11-28 17:24:22.666048+00');
INSERT INTO public.dropped_event VALUES ('aliased', 3, 'deleted', 'anonymous', '2026-11-28 17:24:22.666272+00');
INSERT INTO public.execution_answer VALUES ('9075e0cc-069b-4524-8a5f-adb8a8b734b8', '759a602c7f9a4f9b9bad23e8b9963357', 'f921700f1cdb0255bc2370385aa0e4fd20a7193ff66418b15cd58434a4d01f0f', 200, '{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:24:20.666306+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"9075e0cc-069b-4524-8a5f-adb8a8b734b8","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":null,"partition_complete":null,"late":false,"triggering_asset_events":{"inbox":[{"id":1,"asset_id":1,"timestamp":"2026-11-28T17:24:20.646577Z","extra":{"watcher":"inbox_files","event_id":"9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59","count":1,"watermark":{"from":"2026-11-28T17:24:20.364753Z","to":"2026-11-28T17:24:20.614009Z"},"files":[{"path":"/the/folder/inbox/a.csv","size":5,"last_modified":"2026-11-28T17:24:20.551743Z","inode":9987788}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"bfa5881ded88ec70bbf2b4ff08d00102","partition_key":null,"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-28 17:24:21.036763+00');
INSERT INTO public.execution_answer VALUES ('9075e0cc-069b-4524-8a5f-adb8a8b734b8', '02d761399b3d4c6ebb12659b58fa4d44', 'd89eca8b597f9d05371ee3a72294d4660cbb70bbdbe23ab86c45f1b4ac200cbc', 204, NULL, '2026-11-28 17:24:21.079364+00');
INSERT INTO public.execution_answer VALUES ('9075e0cc-069b-4524-8a5f-adb8a8b734b8', '88eb97cfc20c4860ba2d5fb6f41c423b', 'a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1', 200, '{}', '2026-11-28 17:24:21.09403+00');
INSERT INTO public.execution_answer VALUES ('f86e8450-b2b1-4bc6-a0f9-1beeb9386f02', '36c131e8115c48c184477ba86f9ef268', 'e06f5130682ab44f855ffc84eeead11ff0cf352207e1ac3720b46e22103c112a', 200, '{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:24:21.494210+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"f86e8450-b2b1-4bc6-a0f9-1beeb9386f02","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":null,"partition_complete":null,"late":false,"triggering_asset_events":{"inbox":[{"id":3,"asset_id":1,"timestamp":"2026-11-28T17:24:21.479925Z","extra":{"watcher":"inbox_files","event_id":"c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc","count":1,"watermark":{"from":"2026-11-28T17:24:20.614009Z","to":"2026-11-28T17:24:21.457141Z"},"files":[{"path":"/the/folder/inbox/b.csv","size":5,"last_modified":"2026-11-28T17:24:21.273490Z","inode":9987797}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"4bad9c46fc3d9a59e0f433fcc4ac7036","partition_key":null,"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-28 17:24:21.670087+00');
INSERT INTO public.execution_answer VALUES ('f86e8450-b2b1-4bc6-a0f9-1beeb9386f02', 'f6890be499ab47c9b099de31082f3fdb', '1c79c35df82c52e6bb8a5b5d8539b67ac6d408ebd1c60a89bc14319f9db4f940', 204, NULL, '2026-11-28 17:24:21.683198+00');
INSERT INTO public.execution_answer VALUES ('f86e8450-b2b1-4bc6-a0f9-1beeb9386f02', '5996595826314d20866a27d95b3270c6', 'a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1', 200, '{}', '2026-11-28 17:24:21.690026+00');
INSERT INTO public.execution_answer VALUES ('66e09104-c478-431e-bf95-02048616f07e', '5a48ca61ea984db4812c9a5a19726c7d', 'f648572122a9f95b0c96a3d8c384ef86078e7274e6db468056290ac3ab1ae089', 200, '{"dag_id":"daily","run_id":"asset_triggered__2026-11-28T17:24:21.946662+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"66e09104-c478-431e-bf95-02048616f07e","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":"1","partition_complete":true,"late":false,"triggering_asset_events":{"days":[{"id":5,"asset_id":6,"timestamp":"2026-11-28T17:24:21.906168Z","extra":{"watcher":"day_files","event_id":"190f3c7238390d8eb108d24f5a891ba66af75ea23c45690fa290e822e5b159e2","count":1,"watermark":{"from":"2026-11-28T17:24:20.364636Z","to":"2026-11-28T17:24:21.876319Z"},"files":[{"path":"/the/folder/days/dt=1/region=eu/d.csv","size":5,"last_modified":"2026-11-28T17:24:21.730351Z","inode":9987853}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"day_files","trace_id":"283202c4cdfaa83118a2b355ea69e55f","partition_key":"1|eu","asset":{"name":"days","uri":"days","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]},{"id":6,"asset_id":6,"timestamp":"2026-11-28T17:24:21.906257Z","extra":{"watcher":"day_files","event_id":"990de6247465af730f7eb8e98468791b3cbf725c2fa77b92b9a9722c3cc3bf98","count":1,"watermark":{"from":"2026-11-28T17:24:20.364636Z","to":"2026-11-28T17:24:21.876319Z"},"files":[{"path":"/the/folder/days/dt=1/region=us/e.csv","size":5,"last_modified":"2026-11-28T17:24:21.730449Z","inode":9987855}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"day_files","trace_id":"9f926bfcd37ff3442a4ee2f721a23f75","partition_key":"1|us","asset":{"name":"days","uri":"days","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-28 17:24:22.303857+00');
INSERT INTO public.execution_answer VALUES ('66e09104-c478-431e-bf95-02048616f07e', 'afd2bc19bfc3407dbc7f951dc37ecff7', 'c2d1b3a5f099596c0bd173a4c9a3b093943f0ab5d39dec12041c8661664fdd16', 204, NULL, '2026-11-28 17:24:22.317921+00');
INSERT INTO public.execution_answer VALUES ('66e09104-c478-431e-bf95-02048616f07e', '08321dc9bfe44d6789a054d29bd52f71', 'a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1', 200, '{}', '2026-11-28 17:24:22.324564+00');
INSERT INTO public.execution_answer VALUES ('6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3', 'b0af711a9b3a4a2e9db5ac4720a30b4d', 'e3d05461d8bf62f7c49821e4c6b82c59f0093f27e4304d248b44db27234c8efe', 200, '{"dag_id":"slow","run_id":"asset_triggered__2026-11-28T17:24:22.790598+00:00_0","task_id":"slow","map_index":-1,"try_number":1,"task_instance_id":"6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":null,"partition_complete":null,"late":false,"triggering_asset_events":{"numbers":[{"id":9,"asset_id":2,"timestamp":"2026-11-28T17:24:22.772021Z","extra":{"watcher":"number_files","event_id":"4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2","count":1,"watermark":{"from":"2026-11-28T17:24:20.364835Z","to":"2026-11-28T17:24:22.749668Z"},"files":[{"path":"/the/folder/numbers/one.csv","size":7,"last_modified":"2026-11-28T17:24:22.670417Z","inode":9987865}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"number_files","trace_id":"39f9aec5aea7f40721e53d58325c39a0","partition_key":null,"asset":{"name":"numbers","uri":"numbers","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"slow","uri":"slow"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-28 17:24:23.052361+00');
INSERT INTO public.execution_answer VALUES ('6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3', 'c0f8ef341d574b54992140f5cac391fb', '3a73d8fda7db0171119eba72862d52ccb64f4601242b01e137e48ca7e7ab3edc', 204, NULL, '2026-11-28 17:24:23.086181+00');
INSERT INTO public.execution_answer VALUES ('6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3', '023c6635ad4846edb32a9f4b1d8973c5', 'a698676146f2128fd1b8f6ef221b34e42cc3d1fe834bfad5b80de95bcd22b051', 204, NULL, '2026-11-28 17:24:23.097796+00');
INSERT INTO public.job VALUES ('load', 'load', true, false, '{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:24:19.971046+00', '2026-11-28 17:24:19.971046+00', NULL, NULL, NULL, false, false, NULL, NULL, NULL);
INSERT INTO public.job VALUES ('slow', 'slow', true, false, '{"schedule": "numbers", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/slow.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:24:19.971226+00', '2026-11-28 17:24:19.971226+00', NULL, NULL, NULL, false, false, NULL, NULL, NULL);
INSERT INTO public.job VALUES ('both', 'load', true, false, '{"schedule": {"all": ["inbox", "slow"]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:24:19.971237+00', '2026-11-28 17:24:19.971237+00', NULL, NULL, NULL, false, false, NULL, NULL, NULL);
INSERT INTO public.job VALUES ('daily', 'load', true, false, '{"schedule": "days", "batch": {"mode": "per_partition", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": ["day"], "complete": {"part": "region", "values": ["eu", "us"], "at_least": null, "items": null, "marker": null, "manifest": null}, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:24:19.971264+00', '2026-11-28 17:24:19.971264+00', NULL, NULL, NULL, false, true, NULL, NULL, NULL);
INSERT INTO public.job VALUES ('held', 'load', true, true, '{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:24:19.971211+00', '2026-11-28 17:24:19.971211+00', NULL, NULL, NULL, false, false, NULL, NULL, NULL);
INSERT INTO public.job VALUES ('aliased', 'load', true, true, '{"schedule": {"any": ["inbox", {"alias": "parts"}]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:24:19.971248+00', '2026-11-28 17:24:19.971248+00', NULL, NULL, NULL, false, false, NULL, NULL, NULL);
INSERT INTO public.job_outlet VALUES ('both', 3);
INSERT INTO public.job_outlet VALUES ('daily', 3);
INSERT INTO public.job_outlet VALUES ('held', 3);
INSERT INTO public.job_outlet VALUES ('load', 3);
INSERT INTO public.job_outlet VALUES ('slow', 4);
INSERT INTO public.job_schedule_alias VALUES ('aliased', 1, false);
INSERT INTO public.job_schedule_asset VALUES ('aliased', 1, false);
INSERT INTO public.job_schedule_asset VALUES ('both', 1, false);
INSERT INTO public.job_schedule_asset VALUES ('both', 4, false);
INSERT INTO public.job_schedule_asset VALUES ('daily', 6, false);
INSERT INTO public.job_schedule_asset VALUES ('held', 1, false);
INSERT INTO public.job_schedule_asset VALUES ('load', 1, false);
INSERT INTO public.job_schedule_asset VALUES ('slow', 2, false);
INSERT INTO public.leader VALUES (1, 'a40f4975-408f-466c-a313-cc6ba3e73125', 1, '2026-11-28 17:24:27.715365+00', NULL);
INSERT INTO public.outbox VALUES (2, 'airflow', '3', NULL, 4, NULL, '2026-11-28 17:24:21.69804+00', 0, NULL, NULL, NULL, false, NULL);
INSERT INTO public.outbox VALUES (1, 'airflow', '3', NULL, 2, NULL, '2026-11-28 17:24:21.124596+00', 2, '2026-11-28 17:24:21.167025+00', NULL, '2026-11-28 17:24:24.220433+00', false, 'Airflow cannot be reached at http://127.0.0.1:9: All connection attempts failed');
INSERT INTO public.outbox VALUES (3, 'airflow', '3', NULL, 8, NULL, '2026-11-28 17:24:22.331641+00', 0, NULL, NULL, NULL, false, NULL);
INSERT INTO public.partition_group VALUES ('daily', '1', NULL, NULL);
INSERT INTO public.queued_event VALUES ('both', 1, 1, '2026-11-28 17:24:20.646577+00', NULL, '');
INSERT INTO public.queued_event VALUES ('held', 1, 1, '2026-11-28 17:24:20.646577+00', NULL, '');
INSERT INTO public.queued_event VALUES ('both', 3, 1, '2026-11-28 17:24:21.479925+00', NULL, '');
INSERT INTO public.queued_event VALUES ('held', 3, 1, '2026-11-28 17:24:21.479925+00', NULL, '');
INSERT INTO public.queued_event VALUES ('daily', 7, 6, '2026-11-28 17:24:21.906264+00', '2|eu', '');
INSERT INTO public.replay VALUES (1, 'aliased', NULL, NULL, '2020-01-01 00:00:00+00', '2100-01-01 00:00:00+00', true, 2, 8, 0, 3, 0, 2, 0, 'anonymous', '2026-11-28 17:24:22.534296+00', '2026-11-28 17:24:22.605578+00');
INSERT INTO public.run VALUES (1, 'load', 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', 'asset_triggered', 'asset', 'success', NULL, NULL, '{}', NULL, 'bfa5881ded88ec70bbf2b4ff08d00102', NULL, NULL, NULL, '2026-11-28 17:24:20.669575+00', '2026-11-28 17:24:20.669575+00', '2026-11-28 17:24:20.705639+00', '2026-11-28 17:24:21.098005+00', NULL, NULL, NULL, NULL, false);
INSERT INTO public.run VALUES (2, 'load', 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', 'asset_triggered', 'asset', 'success', NULL, NULL, '{}', NULL, '4bad9c46fc3d9a59e0f433fcc4ac7036', NULL, NULL, NULL, '2026-11-28 17:24:21.495581+00', '2026-11-28 17:24:21.495581+00', '2026-11-28 17:24:21.504419+00', '2026-11-28 17:24:21.692966+00', NULL, NULL, NULL, NULL, false);
INSERT INTO public.run VALUES (3, 'daily', 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', 'asset_triggered', 'asset', 'success', NULL, NULL, '{}', NULL, '9f926bfcd37ff3442a4ee2f721a23f75', NULL, NULL, NULL, '2026-11-28 17:24:21.979044+00', '2026-11-28 17:24:21.979044+00', '2026-11-28 17:24:22.002406+00', '2026-11-28 17:24:22.327305+00', NULL, NULL, '1', true, false);
INSERT INTO public.run VALUES (4, 'slow', 'asset_triggered__2026-11-28T17:24:22.790598+00:00_0', 'asset_triggered', 'asset', 'running', NULL, NULL, '{}', NULL, '39f9aec5aea7f40721e53d58325c39a0', NULL, NULL, NULL, '2026-11-28 17:24:22.79415+00', '2026-11-28 17:24:22.79415+00', '2026-11-28 17:24:22.81855+00', NULL, NULL, NULL, NULL, NULL, false);
INSERT INTO public.run_asset_event VALUES ('load', 1, 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', true);
INSERT INTO public.run_asset_event VALUES ('load', 3, 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', true);
INSERT INTO public.run_asset_event VALUES ('daily', 5, 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', false);
INSERT INTO public.run_asset_event VALUES ('daily', 6, 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', true);
INSERT INTO public.run_asset_event VALUES ('slow', 9, 'asset_triggered__2026-11-28T17:24:22.790598+00:00_0', true);
INSERT INTO public.setting VALUES ('configuration_hash', 'e4ef634e47133d68a5d2fb813347860f903a41b2a39f6647c136009046eb94fd');
INSERT INTO public.setting VALUES ('instance', '63598d2f-c5cf-4731-ace4-ae1f0efbf424');
INSERT INTO public.setting VALUES ('signing_keys', '{"digests": ["1007f3ceaf9351f7d04348acca06c3f3e45cbc9813c90dc65f644a401e2dc5ea"], "host": "vm", "pid": 16672}');
INSERT INTO public.task_instance VALUES ('9075e0cc-069b-4524-8a5f-adb8a8b734b8', 'load', 'asset_triggered__2026-11-28T17:24:20.666306+00:00_0', 'load', -1, 'own', 1, 'success', NULL, NULL, '2026-11-28 17:24:20.865177+00', '2026-11-28 17:24:21.096166+00');
INSERT INTO public.task_instance VALUES ('f86e8450-b2b1-4bc6-a0f9-1beeb9386f02', 'load', 'asset_triggered__2026-11-28T17:24:21.494210+00:00_0', 'load', -1, 'own', 1, 'success', NULL, NULL, '2026-11-28 17:24:21.585555+00', '2026-11-28 17:24:21.691501+00');
INSERT INTO public.task_instance VALUES ('66e09104-c478-431e-bf95-02048616f07e', 'daily', 'asset_triggered__2026-11-28T17:24:21.946662+00:00_0', 'load', -1, 'own', 1, 'success', NULL, NULL, '2026-11-28 17:24:22.148484+00', '2026-11-28 17:24:22.326274+00');
INSERT INTO public.task_instance VALUES ('6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3', 'slow', 'asset_triggered__2026-11-28T17:24:22.790598+00:00_0', 'slow', -1, 'own', 1, 'running', NULL, NULL, '2026-11-28 17:24:22.992341+00', NULL);
INSERT INTO public.task_store VALUES ('slow', 'asset_triggered__2026-11-28T17:24:22.790598+00:00_0', 'slow', -1, 'began', 'true', false, '2026-11-28 17:24:23.101877+00', '2026-12-28 17:24:23.094401+00', false);
INSERT INTO public.task_try VALUES ('9075e0cc-069b-4524-8a5f-adb8a8b734b8', 1, 'a40f4975-408f-466c-a313-cc6ba3e73125', 'run-9075e0cc-069b-4524-8a5f-adb8a8b734b8-1', '76d96860008c635dac9f1e2eb36c19593d63c90ac6f771916407d7b4443207fc', '{"folder": "/the/folder/home/runs/load/9075e0cc-069b-4524-8a5f-adb8a8b734b8/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:24:20.666306+00:00_0/load/-1/1.log", "tag": "run-9075e0cc-069b-4524-8a5f-adb8a8b734b8-1"}', '9f8c79e7fde44c8aab44191913223af3', 'success', NULL, NULL, 0, false, '2026-11-28 17:24:20.698626+00', '2026-11-28 17:24:20.863246+00', '2026-11-28 17:24:21.038157+00', NULL, '2026-11-28 17:24:21.186584+00', 'spark-submit', NULL, '{"cpu_seconds": 0.114, "peak_memory_mb": 23}', false, NULL, NULL, NULL);
INSERT INTO public.task_try VALUES ('66e09104-c478-431e-bf95-02048616f07e', 1, 'a40f4975-408f-466c-a313-cc6ba3e73125', 'run-66e09104-c478-431e-bf95-02048616f07e-1', '0dd4fdda39683ab0c8da5a57c4fe345ee820a478c3c2625e86ad3834449792d0', '{"folder": "/the/folder/home/runs/daily/66e09104-c478-431e-bf95-02048616f07e/1", "log": "/the/folder/home/logs/runs/daily/asset_triggered__2026-11-28T17:24:21.946662+00:00_0/load/-1/1.log", "tag": "run-66e09104-c478-431e-bf95-02048616f07e-1"}', 'a9c02e372823442abb69fcd60fc07a04', 'success', NULL, NULL, 0, false, '2026-11-28 17:24:22.001521+00', '2026-11-28 17:24:22.146966+00', '2026-11-28 17:24:22.304793+00', NULL, '2026-11-28 17:24:22.495377+00', 'spark-submit', NULL, '{"cpu_seconds": 0.109, "peak_memory_mb": 23}', false, NULL, NULL, NULL);
INSERT INTO public.task_try VALUES ('f86e8450-b2b1-4bc6-a0f9-1beeb9386f02', 1, 'a40f4975-408f-466c-a313-cc6ba3e73125', 'run-f86e8450-b2b1-4bc6-a0f9-1beeb9386f02-1', '924a81d12355332550b6ebc6c084396f216b81cf60cd8c9305fcbdc1e58ef856', '{"folder": "/the/folder/home/runs/load/f86e8450-b2b1-4bc6-a0f9-1beeb9386f02/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:24:21.494210+00:00_0/load/-1/1.log", "tag": "run-f86e8450-b2b1-4bc6-a0f9-1beeb9386f02-1"}', 'fc672b6c95b545488cc902fa952e4c32', 'success', NULL, NULL, 0, false, '2026-11-28 17:24:21.503939+00', '2026-11-28 17:24:21.580751+00', '2026-11-28 17:24:21.67113+00', NULL, '2026-11-28 17:24:21.904979+00', 'spark-submit', NULL, '{"cpu_seconds": 0.108, "peak_memory_mb": 23}', false, NULL, NULL, NULL);
INSERT INTO public.task_try VALUES ('6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3', 1, 'a40f4975-408f-466c-a313-cc6ba3e73125', 'run-6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3-1', 'fdb7d9f7837d7fc7a234ec342955e28e1a673cc440ce83c550002c34cef0e202', '{"folder": "/the/folder/home/runs/slow/6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3/1", "log": "/the/folder/home/logs/runs/slow/asset_triggered__2026-11-28T17:24:22.790598+00:00_0/slow/-1/1.log", "tag": "run-6ef45e15-f7ca-4ca0-8dae-a3b89f264fc3-1"}', 'ae6d7a84f8e344a6815079690245ed85', NULL, NULL, NULL, NULL, true, '2026-11-28 17:24:22.81789+00', '2026-11-28 17:24:22.985617+00', '2026-11-28 17:24:23.053513+00', NULL, NULL, 'spark-submit', NULL, NULL, false, NULL, NULL, NULL);
INSERT INTO public.triggerer VALUES ('28de5558-f9f6-4a90-a65b-9ec977d21b66', 'vm', 16672, '2026-11-28 17:24:20.262346+00', '2026-11-28 17:24:22.755397+00', '2026-11-28 17:24:27.755397+00', 10000, 'e4ef634e47133d68a5d2fb813347860f903a41b2a39f6647c136009046eb94fd', '{"inbox_files": "2e005dea4e4c8206", "number_files": "4e9ef216b241d137", "day_files": "ecedff772096a16c"}');
INSERT INTO public.watcher VALUES ('day_files', 6, 'file.new_files', true, false, 'running', NULL, 0, '2026-11-28 17:24:22.545674+00', '2026-11-28 17:24:21.911741+00', 0, '"2026-11-28T17:24:22.525466Z"', 2, 'ecedff772096a16c', NULL, '{"polls": [{"started": "2026-11-28T17:24:21.896Z", "seconds": 0.038804, "found": 3, "committed": 3, "error": null, "times": 1}], "lag": {"newest": 498857, "seconds": [0.708]}}', NULL, NULL);
INSERT INTO public.watcher VALUES ('inbox_files', 1, 'file.new_files', true, false, 'running', NULL, 0, '2026-11-28 17:24:22.545875+00', '2026-11-28 17:24:21.482953+00', 0, '"2026-11-28T17:24:22.525696Z"', 3, '2e005dea4e4c8206', NULL, '{"polls": [{"started": "2026-11-28T17:24:20.633Z", "seconds": 0.025433, "found": 1, "committed": 1, "error": null, "times": 1}, {"started": "2026-11-28T17:24:21.477Z", "seconds": 0.009658, "found": 1, "committed": 1, "error": null, "times": 1}], "lag": {"newest": 498857, "seconds": [0.626]}}', NULL, NULL);
INSERT INTO public.watcher VALUES ('number_files', 2, 'file.new_files', true, false, 'running', NULL, 0, '2026-11-28 17:24:22.54589+00', '2026-11-28 17:24:22.775105+00', 0, '"2026-11-28T17:24:22.525723Z"', 1, '4e9ef216b241d137', NULL, NULL, NULL, NULL);
INSERT INTO public.watcher_asset VALUES ('day_files', 7, true);
INSERT INTO public.watcher_position VALUES ('inbox_files', '{"match": null, "min_size": 0, "path": "/the/folder/inbox", "regex": null, "trigger": "file.new_files"}', '28de5558-f9f6-4a90-a65b-9ec977d21b66', 1, 3, '{"up_to": "2026-11-28T17:24:21.457141Z", "horizon": null, "seen": 2, "scan": null}', '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:24:21.457141Z"}', NULL, '2026-11-28 17:24:21.479793+00', 3, NULL);
INSERT INTO public.watcher_position VALUES ('day_files', '{"match": null, "min_size": 0, "path": "/the/folder/days", "regex": null, "trigger": "file.new_files"}', '28de5558-f9f6-4a90-a65b-9ec977d21b66', 1, 2, '{"up_to": "2026-11-28T17:24:21.876319Z", "horizon": null, "seen": 3, "scan": null}', '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:24:21.876319Z"}', NULL, '2026-11-28 17:24:21.906114+00', 3, NULL);
INSERT INTO public.watcher_position VALUES ('number_files', '{"match": null, "min_size": 0, "path": "/the/folder/numbers", "regex": null, "trigger": "file.new_files"}', '28de5558-f9f6-4a90-a65b-9ec977d21b66', 1, 2, '{"up_to": "2026-11-28T17:24:22.749668Z", "horizon": null, "seen": 1, "scan": null}', '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:24:22.749668Z"}', NULL, '2026-11-28 17:24:22.771881+00', 3, NULL);
INSERT INTO public.watcher_position_row VALUES ('inbox_files', 560918173090110027, 1795886660551743);
INSERT INTO public.watcher_position_row VALUES ('inbox_files', -6397535306129918637, 1795886661273490);
INSERT INTO public.watcher_position_row VALUES ('day_files', -7359032694692890877, 1795886661730351);
INSERT INTO public.watcher_position_row VALUES ('day_files', 3194606491592585776, 1795886661730449);
INSERT INTO public.watcher_position_row VALUES ('day_files', 2549551661040712571, 1795886661730574);
INSERT INTO public.watcher_position_row VALUES ('number_files', 8258840013415669347, 1795886662670417);
SELECT pg_catalog.setval('public.asset_alias_id_seq', 1, true);
SELECT pg_catalog.setval('public.asset_event_id_seq', 9, true);
SELECT pg_catalog.setval('public.asset_id_seq', 7, true);
SELECT pg_catalog.setval('public.audit_id_seq', 4, true);
SELECT pg_catalog.setval('public.outbox_id_seq', 3, true);
SELECT pg_catalog.setval('public.replay_id_seq', 1, true);
SELECT pg_catalog.setval('public.run_id_seq', 4, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.alert
    ADD CONSTRAINT pk_alert PRIMARY KEY (key);
ALTER TABLE ONLY public.api_session
    ADD CONSTRAINT pk_api_session PRIMARY KEY (id_hash);
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT pk_api_token PRIMARY KEY (id);
ALTER TABLE ONLY public.asset
    ADD CONSTRAINT pk_asset PRIMARY KEY (id);
ALTER TABLE ONLY public.asset_alias
    ADD CONSTRAINT pk_asset_alias PRIMARY KEY (id);
ALTER TABLE ONLY public.asset_alias_asset
    ADD CONSTRAINT pk_asset_alias_asset PRIMARY KEY (alias_id, asset_id);
ALTER TABLE ONLY public.asset_alias_event
    ADD CONSTRAINT pk_asset_alias_event PRIMARY KEY (alias_id, event_id);
ALTER TABLE ONLY public.asset_event
    ADD CONSTRAINT pk_asset_event PRIMARY KEY (id);
ALTER TABLE ONLY public.asset_forward
    ADD CONSTRAINT pk_asset_forward PRIMARY KEY (asset_id);
ALTER TABLE ONLY public.asset_store
    ADD CONSTRAINT pk_asset_store PRIMARY KEY (asset_id, key);
ALTER TABLE ONLY public.asset_store_history
    ADD CONSTRAINT pk_asset_store_history PRIMARY KEY (asset_id, key, version);
ALTER TABLE ONLY public.asset_store_increment
    ADD CONSTRAINT pk_asset_store_increment PRIMARY KEY (task_instance_id, asset_id, ordinal);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT pk_audit PRIMARY KEY (id);
ALTER TABLE ONLY public.cleaning
    ADD CONSTRAINT pk_cleaning PRIMARY KEY (event_id);
ALTER TABLE ONLY public.dispatcher
    ADD CONSTRAINT pk_dispatcher PRIMARY KEY (home_id);
ALTER TABLE ONLY public.dropped_event
    ADD CONSTRAINT pk_dropped_event PRIMARY KEY (dag_id, event_id);
ALTER TABLE ONLY public.execution_answer
    ADD CONSTRAINT pk_execution_answer PRIMARY KEY (task_instance_id, key);
ALTER TABLE ONLY public.job
    ADD CONSTRAINT pk_job PRIMARY KEY (dag_id);
ALTER TABLE ONLY public.job_inlet
    ADD CONSTRAINT pk_job_inlet PRIMARY KEY (dag_id, asset_id);
ALTER TABLE ONLY public.job_inlet_alias
    ADD CONSTRAINT pk_job_inlet_alias PRIMARY KEY (dag_id, alias_id);
ALTER TABLE ONLY public.job_outlet
    ADD CONSTRAINT pk_job_outlet PRIMARY KEY (dag_id, asset_id);
ALTER TABLE ONLY public.job_outlet_alias
    ADD CONSTRAINT pk_job_outlet_alias PRIMARY KEY (dag_id, alias_id);
ALTER TABLE ONLY public.job_schedule_alias
    ADD CONSTRAINT pk_job_schedule_alias PRIMARY KEY (dag_id, alias_id);
ALTER TABLE ONLY public.job_schedule_asset
    ADD CONSTRAINT pk_job_schedule_asset PRIMARY KEY (dag_id, asset_id);
ALTER TABLE ONLY public.leader
    ADD CONSTRAINT pk_leader PRIMARY KEY (id);
ALTER TABLE ONLY public.listen_position
    ADD CONSTRAINT pk_listen_position PRIMARY KEY (source);
ALTER TABLE ONLY public.listen_seen
    ADD CONSTRAINT pk_listen_seen PRIMARY KEY (source, event_id, "timestamp");
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT pk_outbox PRIMARY KEY (id);
ALTER TABLE ONLY public.partition_group
    ADD CONSTRAINT pk_partition_group PRIMARY KEY (dag_id, key);
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT pk_queued_event PRIMARY KEY (dag_id, event_id);
ALTER TABLE ONLY public.rejected_item
    ADD CONSTRAINT pk_rejected_item PRIMARY KEY (watcher, digest);
ALTER TABLE ONLY public.replay
    ADD CONSTRAINT pk_replay PRIMARY KEY (id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT pk_run PRIMARY KEY (id);
ALTER TABLE ONLY public.run_asset_event
    ADD CONSTRAINT pk_run_asset_event PRIMARY KEY (dag_id, event_id);
ALTER TABLE ONLY public.setting
    ADD CONSTRAINT pk_setting PRIMARY KEY (key);
ALTER TABLE ONLY public.task_instance
    ADD CONSTRAINT pk_task_instance PRIMARY KEY (id);
ALTER TABLE ONLY public.task_store
    ADD CONSTRAINT pk_task_store PRIMARY KEY (dag_id, run_id, task_id, map_index, key);
ALTER TABLE ONLY public.task_try
    ADD CONSTRAINT pk_task_try PRIMARY KEY (task_instance_id, try_number);
ALTER TABLE ONLY public.triggerer
    ADD CONSTRAINT pk_triggerer PRIMARY KEY (id);
ALTER TABLE ONLY public.watcher
    ADD CONSTRAINT pk_watcher PRIMARY KEY (name);
ALTER TABLE ONLY public.watcher_asset
    ADD CONSTRAINT pk_watcher_asset PRIMARY KEY (watcher, asset_id);
ALTER TABLE ONLY public.watcher_position
    ADD CONSTRAINT pk_watcher_position PRIMARY KEY (watcher);
ALTER TABLE ONLY public.watcher_position_chunk
    ADD CONSTRAINT pk_watcher_position_chunk PRIMARY KEY (watcher, number);
ALTER TABLE ONLY public.watcher_position_row
    ADD CONSTRAINT pk_watcher_position_row PRIMARY KEY (watcher, member);
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT uq_api_token_token_hash UNIQUE (token_hash);
ALTER TABLE ONLY public.asset_alias
    ADD CONSTRAINT uq_asset_alias_name UNIQUE (name);
ALTER TABLE ONLY public.asset_event
    ADD CONSTRAINT uq_asset_event_event_id UNIQUE (event_id);
ALTER TABLE ONLY public.asset
    ADD CONSTRAINT uq_asset_name UNIQUE (name);
ALTER TABLE ONLY public.asset
    ADD CONSTRAINT uq_asset_uri UNIQUE (uri);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT uq_run_dag_id_run_id UNIQUE (dag_id, run_id);
ALTER TABLE ONLY public.task_instance
    ADD CONSTRAINT uq_task_instance_dag_id_run_id_task_id_map_index UNIQUE (dag_id, run_id, task_id, map_index);
ALTER TABLE ONLY public.task_try
    ADD CONSTRAINT uq_task_try_tag UNIQUE (tag);
CREATE INDEX ix_asset_alias_asset_asset_id ON public.asset_alias_asset USING btree (asset_id);
CREATE INDEX ix_asset_alias_event_event_id ON public.asset_alias_event USING btree (event_id);
CREATE INDEX ix_asset_event_asset_id_id ON public.asset_event USING btree (asset_id, id);
CREATE INDEX ix_asset_event_asset_id_sketches ON public.asset_event USING btree (asset_id, sketch_high, sketch_low, sketch_bits, sketch_more_bits, id);
CREATE INDEX ix_asset_event_source_dag_id_source_run_id ON public.asset_event USING btree (source_dag_id, source_run_id) WHERE (source_dag_id IS NOT NULL);
CREATE INDEX ix_asset_event_timestamp ON public.asset_event USING btree ("timestamp");
CREATE INDEX ix_asset_event_trace_id ON public.asset_event USING btree (trace_id);
CREATE INDEX ix_asset_store_history_dag_id_run_id ON public.asset_store_history USING btree (dag_id, run_id) WHERE (dag_id IS NOT NULL);
CREATE INDEX ix_asset_store_history_write_id ON public.asset_store_history USING btree (write_id);
CREATE INDEX ix_asset_store_history_written_at ON public.asset_store_history USING btree (written_at);
CREATE INDEX ix_audit_at ON public.audit USING btree (at);
CREATE INDEX ix_audit_write_id ON public.audit USING btree (write_id);
CREATE INDEX ix_cleaning_watcher_due_at ON public.cleaning USING btree (watcher, due_at);
CREATE INDEX ix_dropped_event_event_id ON public.dropped_event USING btree (event_id);
CREATE INDEX ix_execution_answer_created_at ON public.execution_answer USING btree (created_at);
CREATE INDEX ix_job_inlet_alias_alias_id ON public.job_inlet_alias USING btree (alias_id);
CREATE INDEX ix_job_inlet_asset_id ON public.job_inlet USING btree (asset_id);
CREATE INDEX ix_job_outlet_alias_alias_id ON public.job_outlet_alias USING btree (alias_id);
CREATE INDEX ix_job_outlet_asset_id ON public.job_outlet USING btree (asset_id);
CREATE INDEX ix_job_schedule_alias_alias_id ON public.job_schedule_alias USING btree (alias_id);
CREATE INDEX ix_job_schedule_asset_asset_id ON public.job_schedule_asset USING btree (asset_id);
CREATE INDEX ix_outbox_asset_event_id ON public.outbox USING btree (asset_event_id);
CREATE INDEX ix_outbox_destination_lane_id ON public.outbox USING btree (destination, lane, id);
CREATE INDEX ix_queued_event_asset_id ON public.queued_event USING btree (asset_id);
CREATE INDEX ix_queued_event_event_id ON public.queued_event USING btree (event_id);
CREATE INDEX ix_queued_event_first ON public.queued_event USING btree (dag_id, asset_id, satisfies, event_id);
CREATE INDEX ix_replay_dag_id ON public.replay USING btree (dag_id);
CREATE INDEX ix_run_asset_event_dag_id_run_id ON public.run_asset_event USING btree (dag_id, run_id);
CREATE INDEX ix_run_asset_event_event_id ON public.run_asset_event USING btree (event_id);
CREATE INDEX ix_run_bad_records ON public.run USING btree (bad_records) WHERE ((bad_records > 0) AND (bad_records_resolved_at IS NULL));
CREATE INDEX ix_run_end_date ON public.run USING btree (end_date);
CREATE INDEX ix_run_state_dag_id_id ON public.run USING btree (state, dag_id, id);
CREATE INDEX ix_run_trace_id ON public.run USING btree (trace_id);
CREATE INDEX ix_task_instance_state ON public.task_instance USING btree (state);
CREATE INDEX ix_task_store_expires_at ON public.task_store USING btree (expires_at);
CREATE INDEX ix_task_try_forget_at ON public.task_try USING btree (forget_at) WHERE (forget_at IS NOT NULL);
CREATE INDEX ix_task_try_home_id_ended_at ON public.task_try USING btree (home_id, ended_at);
CREATE INDEX ix_task_try_open ON public.task_try USING btree (task_instance_id) WHERE (ended_at IS NULL);
CREATE INDEX ix_watcher_asset_asset_id ON public.watcher_asset USING btree (asset_id);
CREATE INDEX ix_watcher_asset_id ON public.watcher USING btree (asset_id);
CREATE INDEX ix_watcher_position_row_watcher_value ON public.watcher_position_row USING btree (watcher, value);
ALTER TABLE ONLY public.api_session
    ADD CONSTRAINT fk_api_session_token_id FOREIGN KEY (token_id) REFERENCES public.api_token(id);
ALTER TABLE ONLY public.asset_alias_asset
    ADD CONSTRAINT fk_asset_alias_asset_alias_id FOREIGN KEY (alias_id) REFERENCES public.asset_alias(id);
ALTER TABLE ONLY public.asset_alias_asset
    ADD CONSTRAINT fk_asset_alias_asset_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.asset_alias_event
    ADD CONSTRAINT fk_asset_alias_event_alias_id FOREIGN KEY (alias_id) REFERENCES public.asset_alias(id);
ALTER TABLE ONLY public.asset_alias_event
    ADD CONSTRAINT fk_asset_alias_event_event_id FOREIGN KEY (event_id) REFERENCES public.asset_event(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.asset_event
    ADD CONSTRAINT fk_asset_event_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.asset_forward
    ADD CONSTRAINT fk_asset_forward_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.asset_store
    ADD CONSTRAINT fk_asset_store_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.asset_store_history
    ADD CONSTRAINT fk_asset_store_history_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.asset_store_increment
    ADD CONSTRAINT fk_asset_store_increment_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.asset_store_increment
    ADD CONSTRAINT fk_asset_store_increment_task_instance_id FOREIGN KEY (task_instance_id) REFERENCES public.task_instance(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.cleaning
    ADD CONSTRAINT fk_cleaning_event_id FOREIGN KEY (event_id) REFERENCES public.asset_event(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.dropped_event
    ADD CONSTRAINT fk_dropped_event_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.dropped_event
    ADD CONSTRAINT fk_dropped_event_event_id FOREIGN KEY (event_id) REFERENCES public.asset_event(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.job_inlet_alias
    ADD CONSTRAINT fk_job_inlet_alias_alias_id FOREIGN KEY (alias_id) REFERENCES public.asset_alias(id);
ALTER TABLE ONLY public.job_inlet_alias
    ADD CONSTRAINT fk_job_inlet_alias_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.job_inlet
    ADD CONSTRAINT fk_job_inlet_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.job_inlet
    ADD CONSTRAINT fk_job_inlet_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.job_outlet_alias
    ADD CONSTRAINT fk_job_outlet_alias_alias_id FOREIGN KEY (alias_id) REFERENCES public.asset_alias(id);
ALTER TABLE ONLY public.job_outlet_alias
    ADD CONSTRAINT fk_job_outlet_alias_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.job_outlet
    ADD CONSTRAINT fk_job_outlet_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.job_outlet
    ADD CONSTRAINT fk_job_outlet_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.job_schedule_alias
    ADD CONSTRAINT fk_job_schedule_alias_alias_id FOREIGN KEY (alias_id) REFERENCES public.asset_alias(id);
ALTER TABLE ONLY public.job_schedule_alias
    ADD CONSTRAINT fk_job_schedule_alias_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.job_schedule_asset
    ADD CONSTRAINT fk_job_schedule_asset_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.job_schedule_asset
    ADD CONSTRAINT fk_job_schedule_asset_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.listen_seen
    ADD CONSTRAINT fk_listen_seen_source FOREIGN KEY (source) REFERENCES public.listen_position(source) ON DELETE CASCADE;
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT fk_outbox_asset_event_id FOREIGN KEY (asset_event_id) REFERENCES public.asset_event(id);
ALTER TABLE ONLY public.partition_group
    ADD CONSTRAINT fk_partition_group_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT fk_queued_event_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT fk_queued_event_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT fk_queued_event_event_id FOREIGN KEY (event_id) REFERENCES public.asset_event(id);
ALTER TABLE ONLY public.replay
    ADD CONSTRAINT fk_replay_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.replay
    ADD CONSTRAINT fk_replay_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.run_asset_event
    ADD CONSTRAINT fk_run_asset_event_dag_id_run_id FOREIGN KEY (dag_id, run_id) REFERENCES public.run(dag_id, run_id);
ALTER TABLE ONLY public.run_asset_event
    ADD CONSTRAINT fk_run_asset_event_event_id FOREIGN KEY (event_id) REFERENCES public.asset_event(id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT fk_run_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.task_try
    ADD CONSTRAINT fk_task_try_task_instance_id FOREIGN KEY (task_instance_id) REFERENCES public.task_instance(id);
ALTER TABLE ONLY public.watcher_asset
    ADD CONSTRAINT fk_watcher_asset_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.watcher
    ADD CONSTRAINT fk_watcher_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.watcher_asset
    ADD CONSTRAINT fk_watcher_asset_watcher FOREIGN KEY (watcher) REFERENCES public.watcher(name);
