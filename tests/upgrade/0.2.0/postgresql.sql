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
    updated_at timestamp with time zone NOT NULL
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
    source_actor character varying(250)
);
CREATE SEQUENCE public.asset_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.asset_event_id_seq OWNED BY public.asset_event.id;
CREATE TABLE public.asset_forward (
    asset_id bigint NOT NULL,
    target character varying(1500) NOT NULL
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
CREATE TABLE public.dispatcher (
    home_id character varying(36) NOT NULL,
    host character varying(255) NOT NULL,
    pid integer NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    configuration character varying(64)
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
    rest_completed_by bigint
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
    alias_id bigint NOT NULL
);
CREATE TABLE public.job_schedule_asset (
    dag_id character varying(250) NOT NULL,
    asset_id bigint NOT NULL
);
CREATE TABLE public.leader (
    id integer NOT NULL,
    owner character varying(36) NOT NULL,
    epoch bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
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
CREATE TABLE public.queued_event (
    dag_id character varying(250) NOT NULL,
    event_id bigint NOT NULL,
    asset_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
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
    end_date timestamp with time zone
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
    cost text
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
    polls text
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
ALTER TABLE ONLY public.run ALTER COLUMN id SET DEFAULT nextval('public.run_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0017');
INSERT INTO public.asset VALUES (1, 'inbox', 'inbox', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:18:42.291773+00', '2026-11-28 17:18:42.291773+00');
INSERT INTO public.asset VALUES (2, 'numbers', 'numbers', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:18:42.291914+00', '2026-11-28 17:18:42.291915+00');
INSERT INTO public.asset VALUES (3, 'loaded', 'loaded', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:18:42.291921+00', '2026-11-28 17:18:42.291921+00');
INSERT INTO public.asset VALUES (4, 'slow', 'slow', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:18:42.291923+00', '2026-11-28 17:18:42.291923+00');
INSERT INTO public.asset VALUES (5, 'all', 'all', 'asset', '{}', 'yaml', true, NULL, '2026-11-28 17:18:42.291928+00', '2026-11-28 17:18:42.291928+00');
INSERT INTO public.asset_alias VALUES (1, 'parts', 'asset', true);
INSERT INTO public.asset_event VALUES (1, 1, '{"watcher": "inbox_files", "event_id": "9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59", "count": 1, "watermark": {"from": "2026-11-28T17:18:42.419068Z", "to": "2026-11-28T17:18:42.670882Z"}, "files": [{"path": "/the/folder/inbox/a.csv", "size": 5, "last_modified": "2026-11-28T17:18:42.497130Z"}]}', '2026-11-28 17:18:42.700249+00', '9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59', '82b3399f633c75ed1c207e7626f0af5d', NULL, NULL, NULL, -1, 'inbox_files', NULL);
INSERT INTO public.asset_event VALUES (2, 3, '{}', '2026-11-28 17:18:42.908329+00', NULL, '82b3399f633c75ed1c207e7626f0af5d', 'load', 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', 'load', -1, NULL, NULL);
INSERT INTO public.asset_event VALUES (3, 1, '{"watcher": "inbox_files", "event_id": "c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc", "count": 1, "watermark": {"from": "2026-11-28T17:18:42.670882Z", "to": "2026-11-28T17:18:43.108883Z"}, "files": [{"path": "/the/folder/inbox/b.csv", "size": 5, "last_modified": "2026-11-28T17:18:42.939671Z"}]}', '2026-11-28 17:18:43.131741+00', 'c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc', '26b20e7fbee7ba5176de23120779c0cb', NULL, NULL, NULL, -1, 'inbox_files', NULL);
INSERT INTO public.asset_event VALUES (4, 3, '{}', '2026-11-28 17:18:43.290341+00', NULL, '26b20e7fbee7ba5176de23120779c0cb', 'load', 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', 'load', -1, NULL, NULL);
INSERT INTO public.asset_event VALUES (5, 2, '{"watcher": "number_files", "event_id": "4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2", "count": 1, "watermark": {"from": "2026-11-28T17:18:42.419674Z", "to": "2026-11-28T17:18:43.529710Z"}, "files": [{"path": "/the/folder/numbers/one.csv", "size": 7, "last_modified": "2026-11-28T17:18:43.366546Z"}]}', '2026-11-28 17:18:43.559617+00', '4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2', '1a2f9c100de977d13a0e936fa7898801', NULL, NULL, NULL, -1, 'number_files', NULL);
INSERT INTO public.asset_forward VALUES (3, 'theirs');
INSERT INTO public.asset_store VALUES (3, 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', '["a.csv"]', false, 1, '2026-11-28 17:18:42.894446+00', 'task', 'load', 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', 'load', -1, NULL, NULL, '11cfeb75534e4f4a9f181e311a25e0f6');
INSERT INTO public.asset_store VALUES (1, 'inbox_files.watermark', '{"up_to": "2026-11-28T17:18:43.108883Z", "horizon": null, "seen": 2, "scan": null}', false, 3, '2026-11-28 17:18:43.135497+00', 'watcher', NULL, NULL, NULL, NULL, 'inbox_files', NULL, '15c86b3a27401223d8eb3c6b99a19383');
INSERT INTO public.asset_store VALUES (3, 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', '["b.csv"]', false, 1, '2026-11-28 17:18:43.283309+00', 'task', 'load', 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', 'load', -1, NULL, NULL, '8418d73b3cd14469b5fdc2bc6e08fde0');
INSERT INTO public.asset_store VALUES (2, 'number_files.watermark', '{"up_to": "2026-11-28T17:18:43.529710Z", "horizon": null, "seen": 1, "scan": null}', false, 2, '2026-11-28 17:18:43.56216+00', 'watcher', NULL, NULL, NULL, NULL, 'number_files', NULL, '1e3fcd03c47e822a7e750c49165f5161');
INSERT INTO public.asset_store VALUES (4, 'began', '"asset_triggered__2026-11-28T17:18:43.564713+00:00_0"', false, 1, '2026-11-28 17:18:43.697854+00', 'task', 'slow', 'asset_triggered__2026-11-28T17:18:43.564713+00:00_0', 'slow', -1, NULL, NULL, '0463849cd2d64ea183444e7ed82fd45a');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 1, '{"up_to": "2026-11-28T17:18:42.419068Z", "horizon": null, "seen": 0, "scan": null}', false, false, '2026-11-28 17:18:42.46566+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '294b11918588904181677cf8d2d1de73');
INSERT INTO public.asset_store_history VALUES (2, 'number_files.watermark', 1, '{"up_to": "2026-11-28T17:18:42.419674Z", "horizon": null, "seen": 0, "scan": null}', false, false, '2026-11-28 17:18:42.49261+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'number_files', NULL, 'a7da5857046766b240ca0398f257849e');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 2, '{"up_to": "2026-11-28T17:18:42.670882Z", "horizon": null, "seen": 1, "scan": null}', false, false, '2026-11-28 17:18:42.705873+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '346e4803088d00e5ca6088d2fd29eff6');
INSERT INTO public.asset_store_history VALUES (3, 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', 1, '["a.csv"]', false, false, '2026-11-28 17:18:42.894474+00', 'task', 'load', 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', 'load', -1, 1, NULL, NULL, '11cfeb75534e4f4a9f181e311a25e0f6');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 3, '{"up_to": "2026-11-28T17:18:43.108883Z", "horizon": null, "seen": 2, "scan": null}', false, false, '2026-11-28 17:18:43.135497+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '15c86b3a27401223d8eb3c6b99a19383');
INSERT INTO public.asset_store_history VALUES (3, 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', 1, '["b.csv"]', false, false, '2026-11-28 17:18:43.283337+00', 'task', 'load', 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', 'load', -1, 1, NULL, NULL, '8418d73b3cd14469b5fdc2bc6e08fde0');
INSERT INTO public.asset_store_history VALUES (2, 'number_files.watermark', 2, '{"up_to": "2026-11-28T17:18:43.529710Z", "horizon": null, "seen": 1, "scan": null}', false, false, '2026-11-28 17:18:43.56216+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'number_files', NULL, '1e3fcd03c47e822a7e750c49165f5161');
INSERT INTO public.asset_store_history VALUES (4, 'began', 1, '"asset_triggered__2026-11-28T17:18:43.564713+00:00_0"', false, false, '2026-11-28 17:18:43.697872+00', 'task', 'slow', 'asset_triggered__2026-11-28T17:18:43.564713+00:00_0', 'slow', -1, 1, NULL, NULL, '0463849cd2d64ea183444e7ed82fd45a');
INSERT INTO public.audit VALUES (1, '2026-11-28 17:18:42.474242+00', 'anonymous', 'job.pause', 'held', '{}', '26b502bf521147d0b92e4c5c63c28018');
INSERT INTO public.dispatcher VALUES ('236d43eb-f830-4db0-b6aa-7583a531b7e6', 'vm', 12923, '2026-11-28 17:18:42.381135+00', '2026-11-28 17:18:47.381135+00', '6de5543fd5746c1579f4854f7f20960fd5448252de511539edcd7a0d828385f8');
INSERT INTO public.execution_answer VALUES ('bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a', 'c300936c781b4a68a9177758c460de6b', '2302a70fcbd1a230966a313e072df4b48cdd2f9ab552c79645da89557da9c79e', 200, '{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:18:42.724270+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"triggering_asset_events":{"inbox":[{"id":1,"asset_id":1,"timestamp":"2026-11-28T17:18:42.700249Z","extra":{"watcher":"inbox_files","event_id":"9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59","count":1,"watermark":{"from":"2026-11-28T17:18:42.419068Z","to":"2026-11-28T17:18:42.670882Z"},"files":[{"path":"/the/folder/inbox/a.csv","size":5,"last_modified":"2026-11-28T17:18:42.497130Z"}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"82b3399f633c75ed1c207e7626f0af5d","asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[],"partition_key":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-28 17:18:42.873042+00');
INSERT INTO public.execution_answer VALUES ('bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a', '637ca61bc5834733be85dc03ae9a6d37', '02d5d690c42256560f892a342c979293f019f327877bb729db6fcea87d12836c', 204, NULL, '2026-11-28 17:18:42.890265+00');
INSERT INTO public.execution_answer VALUES ('bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a', 'f5a660030f8a44ea950a38fc0214206d', 'a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1', 200, '{}', '2026-11-28 17:18:42.899768+00');
INSERT INTO public.execution_answer VALUES ('b38dcb88-93a5-49c1-8443-998fbc740c7a', '66b9ec6350be4a779439c1a089a7cdac', 'ad8e05ab32fcfffdb7c1712cb759a6920e03f09e194cf72c506bd6845b227d71', 200, '{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:18:43.147254+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"b38dcb88-93a5-49c1-8443-998fbc740c7a","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"triggering_asset_events":{"inbox":[{"id":3,"asset_id":1,"timestamp":"2026-11-28T17:18:43.131741Z","extra":{"watcher":"inbox_files","event_id":"c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc","count":1,"watermark":{"from":"2026-11-28T17:18:42.670882Z","to":"2026-11-28T17:18:43.108883Z"},"files":[{"path":"/the/folder/inbox/b.csv","size":5,"last_modified":"2026-11-28T17:18:42.939671Z"}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"26b20e7fbee7ba5176de23120779c0cb","asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[],"partition_key":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-28 17:18:43.274522+00');
INSERT INTO public.execution_answer VALUES ('b38dcb88-93a5-49c1-8443-998fbc740c7a', 'f99f4fcaabd6407abc835405312c138e', 'ee32141d23b45608d21c5c295820e11ef390713958587d1ea05f40249666d5b0', 204, NULL, '2026-11-28 17:18:43.282475+00');
INSERT INTO public.execution_answer VALUES ('b38dcb88-93a5-49c1-8443-998fbc740c7a', '54809e8b43564a4f8ec858df9ae2e98d', 'a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1', 200, '{}', '2026-11-28 17:18:43.286267+00');
INSERT INTO public.execution_answer VALUES ('f03a7df2-30d0-4f3f-b9ea-f15858e3a061', 'fa12e4a4a24c439d96f27ed7fe32d068', '045f97674002e32d57f1896563e00dee66c951dfe6ca636ab0de3aab101ec845', 200, '{"dag_id":"slow","run_id":"asset_triggered__2026-11-28T17:18:43.564713+00:00_0","task_id":"slow","map_index":-1,"try_number":1,"task_instance_id":"f03a7df2-30d0-4f3f-b9ea-f15858e3a061","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"triggering_asset_events":{"numbers":[{"id":5,"asset_id":2,"timestamp":"2026-11-28T17:18:43.559617Z","extra":{"watcher":"number_files","event_id":"4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2","count":1,"watermark":{"from":"2026-11-28T17:18:42.419674Z","to":"2026-11-28T17:18:43.529710Z"},"files":[{"path":"/the/folder/numbers/one.csv","size":7,"last_modified":"2026-11-28T17:18:43.366546Z"}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"number_files","trace_id":"1a2f9c100de977d13a0e936fa7898801","asset":{"name":"numbers","uri":"numbers","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[],"partition_key":null}]},"inlets":[],"outlets":[{"name":"slow","uri":"slow"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-28 17:18:43.687408+00');
INSERT INTO public.execution_answer VALUES ('f03a7df2-30d0-4f3f-b9ea-f15858e3a061', 'b7dee86047424c8aa9b3a0867ed81215', 'e8803c703c7b915a16970c715f3f94fb03d4bd6a7ecb86a2c6ed25045a3b7cef', 204, NULL, '2026-11-28 17:18:43.696968+00');
INSERT INTO public.execution_answer VALUES ('f03a7df2-30d0-4f3f-b9ea-f15858e3a061', 'ee54fa0df61d4b6daa143d19e3959215', '3f007fc786f4e3c5df109d329367b330f922c65ec612a661122be5d913f9b655', 204, NULL, '2026-11-28 17:18:43.700728+00');
INSERT INTO public.job VALUES ('load', 'load', true, false, '{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:18:42.296543+00', '2026-11-28 17:18:42.296543+00', NULL, NULL);
INSERT INTO public.job VALUES ('slow', 'slow', true, false, '{"schedule": "numbers", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/slow.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:18:42.296626+00', '2026-11-28 17:18:42.296626+00', NULL, NULL);
INSERT INTO public.job VALUES ('both', 'load', true, false, '{"schedule": {"all": ["inbox", "slow"]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:18:42.296636+00', '2026-11-28 17:18:42.296636+00', NULL, NULL);
INSERT INTO public.job VALUES ('aliased', 'load', true, true, '{"schedule": {"any": ["inbox", {"alias": "parts"}]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:18:42.296645+00', '2026-11-28 17:18:42.296645+00', NULL, NULL);
INSERT INTO public.job VALUES ('held', 'load', true, true, '{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}', NULL, NULL, NULL, '2026-11-28 17:18:42.296614+00', '2026-11-28 17:18:42.296614+00', NULL, NULL);
INSERT INTO public.job_outlet VALUES ('both', 3);
INSERT INTO public.job_outlet VALUES ('held', 3);
INSERT INTO public.job_outlet VALUES ('load', 3);
INSERT INTO public.job_outlet VALUES ('slow', 4);
INSERT INTO public.job_schedule_alias VALUES ('aliased', 1);
INSERT INTO public.job_schedule_asset VALUES ('aliased', 1);
INSERT INTO public.job_schedule_asset VALUES ('both', 1);
INSERT INTO public.job_schedule_asset VALUES ('both', 4);
INSERT INTO public.job_schedule_asset VALUES ('held', 1);
INSERT INTO public.job_schedule_asset VALUES ('load', 1);
INSERT INTO public.job_schedule_asset VALUES ('slow', 2);
INSERT INTO public.leader VALUES (1, '236d43eb-f830-4db0-b6aa-7583a531b7e6', 1, '2026-11-28 17:18:48.376619+00');
INSERT INTO public.outbox VALUES (1, 'airflow', '3', NULL, 2, NULL, '2026-11-28 17:18:42.910785+00', 1, '2026-11-28 17:18:42.927865+00', NULL, '2026-11-28 17:18:43.937999+00', false, 'Airflow cannot be reached at http://127.0.0.1:9: All connection attempts failed');
INSERT INTO public.outbox VALUES (2, 'airflow', '3', NULL, 4, NULL, '2026-11-28 17:18:43.291187+00', 0, NULL, NULL, NULL, false, NULL);
INSERT INTO public.queued_event VALUES ('aliased', 1, 1, '2026-11-28 17:18:42.700249+00');
INSERT INTO public.queued_event VALUES ('both', 1, 1, '2026-11-28 17:18:42.700249+00');
INSERT INTO public.queued_event VALUES ('held', 1, 1, '2026-11-28 17:18:42.700249+00');
INSERT INTO public.queued_event VALUES ('aliased', 3, 1, '2026-11-28 17:18:43.131741+00');
INSERT INTO public.queued_event VALUES ('both', 3, 1, '2026-11-28 17:18:43.131741+00');
INSERT INTO public.queued_event VALUES ('held', 3, 1, '2026-11-28 17:18:43.131741+00');
INSERT INTO public.run VALUES (1, 'load', 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', 'asset_triggered', 'asset', 'success', NULL, NULL, '{}', NULL, '82b3399f633c75ed1c207e7626f0af5d', NULL, NULL, NULL, '2026-11-28 17:18:42.726975+00', '2026-11-28 17:18:42.726975+00', '2026-11-28 17:18:42.742807+00', '2026-11-28 17:18:42.904107+00');
INSERT INTO public.run VALUES (2, 'load', 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', 'asset_triggered', 'asset', 'success', NULL, NULL, '{}', NULL, '26b20e7fbee7ba5176de23120779c0cb', NULL, NULL, NULL, '2026-11-28 17:18:43.149454+00', '2026-11-28 17:18:43.149454+00', '2026-11-28 17:18:43.16389+00', '2026-11-28 17:18:43.287677+00');
INSERT INTO public.run VALUES (3, 'slow', 'asset_triggered__2026-11-28T17:18:43.564713+00:00_0', 'asset_triggered', 'asset', 'running', NULL, NULL, '{}', NULL, '1a2f9c100de977d13a0e936fa7898801', NULL, NULL, NULL, '2026-11-28 17:18:43.565682+00', '2026-11-28 17:18:43.565682+00', '2026-11-28 17:18:43.573213+00', NULL);
INSERT INTO public.run_asset_event VALUES ('load', 1, 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', true);
INSERT INTO public.run_asset_event VALUES ('load', 3, 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', true);
INSERT INTO public.run_asset_event VALUES ('slow', 5, 'asset_triggered__2026-11-28T17:18:43.564713+00:00_0', true);
INSERT INTO public.setting VALUES ('configuration_hash', '6de5543fd5746c1579f4854f7f20960fd5448252de511539edcd7a0d828385f8');
INSERT INTO public.setting VALUES ('instance', '34a1df8c-cd3c-4b7d-ae09-2670db70e595');
INSERT INTO public.setting VALUES ('signing_keys', '{"digests": ["e07b77d138ac9276eab6725a57d96275b34db644fa53f0551cd84490c7d94864"], "host": "vm", "pid": 12923}');
INSERT INTO public.task_instance VALUES ('bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a', 'load', 'asset_triggered__2026-11-28T17:18:42.724270+00:00_0', 'load', -1, 'own', 1, 'success', NULL, NULL, '2026-11-28 17:18:42.828063+00', '2026-11-28 17:18:42.90243+00');
INSERT INTO public.task_instance VALUES ('b38dcb88-93a5-49c1-8443-998fbc740c7a', 'load', 'asset_triggered__2026-11-28T17:18:43.147254+00:00_0', 'load', -1, 'own', 1, 'success', NULL, NULL, '2026-11-28 17:18:43.236254+00', '2026-11-28 17:18:43.287194+00');
INSERT INTO public.task_instance VALUES ('f03a7df2-30d0-4f3f-b9ea-f15858e3a061', 'slow', 'asset_triggered__2026-11-28T17:18:43.564713+00:00_0', 'slow', -1, 'own', 1, 'running', NULL, NULL, '2026-11-28 17:18:43.644895+00', NULL);
INSERT INTO public.task_store VALUES ('slow', 'asset_triggered__2026-11-28T17:18:43.564713+00:00_0', 'slow', -1, 'began', 'true', false, '2026-11-28 17:18:43.702075+00', '2026-12-28 17:18:43.698993+00', false);
INSERT INTO public.task_try VALUES ('f03a7df2-30d0-4f3f-b9ea-f15858e3a061', 1, '236d43eb-f830-4db0-b6aa-7583a531b7e6', 'run-f03a7df2-30d0-4f3f-b9ea-f15858e3a061-1', '30bdfbe1e910744bc40b22bcd965c3914fa1db24d6e4d34e05ef1f2e46a50c86', '{"folder": "/the/folder/home/runs/slow/f03a7df2-30d0-4f3f-b9ea-f15858e3a061/1", "log": "/the/folder/home/logs/runs/slow/asset_triggered__2026-11-28T17:18:43.564713+00:00_0/slow/-1/1.log", "tag": "run-f03a7df2-30d0-4f3f-b9ea-f15858e3a061-1"}', '0a3c34ee3fb149969bc6e88cd43a8949', NULL, NULL, NULL, NULL, true, '2026-11-28 17:18:43.572818+00', '2026-11-28 17:18:43.644072+00', '2026-11-28 17:18:43.688218+00', NULL, NULL, 'spark-submit', NULL, NULL);
INSERT INTO public.task_try VALUES ('bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a', 1, '236d43eb-f830-4db0-b6aa-7583a531b7e6', 'run-bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a-1', '3020d09a9f9b6bd40e5282a5dfee5f0ccd965f513925d5b6c6e0b415ac9af34b', '{"folder": "/the/folder/home/runs/load/bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:18:42.724270+00:00_0/load/-1/1.log", "tag": "run-bf0c7019-d2ef-4f07-9e24-9edc5a4ac91a-1"}', 'ec5b8201ac904022901353808a79b63e', 'success', NULL, NULL, 0, false, '2026-11-28 17:18:42.74113+00', '2026-11-28 17:18:42.825435+00', '2026-11-28 17:18:42.874162+00', NULL, '2026-11-28 17:18:43.135678+00', 'spark-submit', NULL, '{"cpu_seconds": 0.094, "peak_memory_mb": 23}');
INSERT INTO public.task_try VALUES ('b38dcb88-93a5-49c1-8443-998fbc740c7a', 1, '236d43eb-f830-4db0-b6aa-7583a531b7e6', 'run-b38dcb88-93a5-49c1-8443-998fbc740c7a-1', 'd26952dabd87a9b5db301ea53264fe023d59dddcd484a50193613e77a6e42fed', '{"folder": "/the/folder/home/runs/load/b38dcb88-93a5-49c1-8443-998fbc740c7a/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:18:43.147254+00:00_0/load/-1/1.log", "tag": "run-b38dcb88-93a5-49c1-8443-998fbc740c7a-1"}', 'f2ec8231823443b094e49523d50f948a', 'success', NULL, NULL, 0, false, '2026-11-28 17:18:43.163266+00', '2026-11-28 17:18:43.235085+00', '2026-11-28 17:18:43.275108+00', NULL, '2026-11-28 17:18:43.543109+00', 'spark-submit', NULL, '{"cpu_seconds": 0.093, "peak_memory_mb": 23}');
INSERT INTO public.triggerer VALUES ('68370856-1563-4e40-8d67-d288f17bf947', 'vm', 12923, '2026-11-28 17:18:42.399988+00', '2026-11-28 17:18:43.398788+00', '2026-11-28 17:18:48.398788+00', 10000, '6de5543fd5746c1579f4854f7f20960fd5448252de511539edcd7a0d828385f8', '{"inbox_files": "71c6fb9bdb8c53ba", "number_files": "185f75c21315ad9c"}');
INSERT INTO public.watcher VALUES ('inbox_files', 1, 'file.new_files', true, false, 'running', NULL, 0, '2026-11-28 17:18:43.329088+00', '2026-11-28 17:18:43.135461+00', 0, '"2026-11-28T17:18:43.308933Z"', 3, '71c6fb9bdb8c53ba', NULL, '[{"started": "2026-11-28T17:18:42.690Z", "seconds": 0.018086, "found": 1, "committed": 1, "error": null, "times": 1}, {"started": "2026-11-28T17:18:43.128Z", "seconds": 0.009446, "found": 1, "committed": 1, "error": null, "times": 1}]');
INSERT INTO public.watcher VALUES ('number_files', 2, 'file.new_files', true, false, 'running', NULL, 0, '2026-11-28 17:18:43.328944+00', '2026-11-28 17:18:43.562118+00', 0, '"2026-11-28T17:18:43.308823Z"', 1, '185f75c21315ad9c', NULL, NULL);
INSERT INTO public.watcher_position VALUES ('inbox_files', '{"match": null, "min_size": 0, "path": "/the/folder/inbox", "regex": null, "trigger": "file.new_files"}', '68370856-1563-4e40-8d67-d288f17bf947', 1, 3, '{"up_to": "2026-11-28T17:18:43.108883Z", "horizon": null, "seen": 2, "scan": null}', '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:18:43.108883Z"}', NULL, '2026-11-28 17:18:43.131699+00', 1, NULL);
INSERT INTO public.watcher_position VALUES ('number_files', '{"match": null, "min_size": 0, "path": "/the/folder/numbers", "regex": null, "trigger": "file.new_files"}', '68370856-1563-4e40-8d67-d288f17bf947', 1, 2, '{"up_to": "2026-11-28T17:18:43.529710Z", "horizon": null, "seen": 1, "scan": null}', '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:18:43.529710Z"}', NULL, '2026-11-28 17:18:43.559555+00', 1, NULL);
INSERT INTO public.watcher_position_row VALUES ('inbox_files', 8369840218764308495, 1795886322497130);
INSERT INTO public.watcher_position_row VALUES ('inbox_files', 8663816379229239466, 1795886322939671);
INSERT INTO public.watcher_position_row VALUES ('number_files', 3874037639186790609, 1795886323366546);
SELECT pg_catalog.setval('public.asset_alias_id_seq', 1, true);
SELECT pg_catalog.setval('public.asset_event_id_seq', 5, true);
SELECT pg_catalog.setval('public.asset_id_seq', 5, true);
SELECT pg_catalog.setval('public.audit_id_seq', 1, true);
SELECT pg_catalog.setval('public.outbox_id_seq', 2, true);
SELECT pg_catalog.setval('public.run_id_seq', 3, true);
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
ALTER TABLE ONLY public.dispatcher
    ADD CONSTRAINT pk_dispatcher PRIMARY KEY (home_id);
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
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT pk_queued_event PRIMARY KEY (dag_id, event_id);
ALTER TABLE ONLY public.rejected_item
    ADD CONSTRAINT pk_rejected_item PRIMARY KEY (watcher, digest);
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
ALTER TABLE ONLY public.watcher_position
    ADD CONSTRAINT pk_watcher_position PRIMARY KEY (watcher);
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
CREATE INDEX ix_asset_event_source_dag_id_source_run_id ON public.asset_event USING btree (source_dag_id, source_run_id) WHERE (source_dag_id IS NOT NULL);
CREATE INDEX ix_asset_event_timestamp ON public.asset_event USING btree ("timestamp");
CREATE INDEX ix_asset_event_trace_id ON public.asset_event USING btree (trace_id);
CREATE INDEX ix_asset_store_history_dag_id_run_id ON public.asset_store_history USING btree (dag_id, run_id) WHERE (dag_id IS NOT NULL);
CREATE INDEX ix_asset_store_history_write_id ON public.asset_store_history USING btree (write_id);
CREATE INDEX ix_asset_store_history_written_at ON public.asset_store_history USING btree (written_at);
CREATE INDEX ix_audit_at ON public.audit USING btree (at);
CREATE INDEX ix_audit_write_id ON public.audit USING btree (write_id);
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
CREATE INDEX ix_queued_event_dag_id_asset_id_event_id ON public.queued_event USING btree (dag_id, asset_id, event_id);
CREATE INDEX ix_queued_event_event_id ON public.queued_event USING btree (event_id);
CREATE INDEX ix_run_asset_event_dag_id_run_id ON public.run_asset_event USING btree (dag_id, run_id);
CREATE INDEX ix_run_asset_event_event_id ON public.run_asset_event USING btree (event_id);
CREATE INDEX ix_run_state_dag_id ON public.run USING btree (state, dag_id);
CREATE INDEX ix_run_trace_id ON public.run USING btree (trace_id);
CREATE INDEX ix_task_instance_state ON public.task_instance USING btree (state);
CREATE INDEX ix_task_store_expires_at ON public.task_store USING btree (expires_at);
CREATE INDEX ix_task_try_home_id_ended_at ON public.task_try USING btree (home_id, ended_at);
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
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT fk_queued_event_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT fk_queued_event_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT fk_queued_event_event_id FOREIGN KEY (event_id) REFERENCES public.asset_event(id);
ALTER TABLE ONLY public.run_asset_event
    ADD CONSTRAINT fk_run_asset_event_dag_id_run_id FOREIGN KEY (dag_id, run_id) REFERENCES public.run(dag_id, run_id);
ALTER TABLE ONLY public.run_asset_event
    ADD CONSTRAINT fk_run_asset_event_event_id FOREIGN KEY (event_id) REFERENCES public.asset_event(id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT fk_run_dag_id FOREIGN KEY (dag_id) REFERENCES public.job(dag_id);
ALTER TABLE ONLY public.task_try
    ADD CONSTRAINT fk_task_try_task_instance_id FOREIGN KEY (task_instance_id) REFERENCES public.task_instance(id);
ALTER TABLE ONLY public.watcher
    ADD CONSTRAINT fk_watcher_asset_id FOREIGN KEY (asset_id) REFERENCES public.asset(id);
