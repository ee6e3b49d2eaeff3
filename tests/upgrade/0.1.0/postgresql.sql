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
CREATE TABLE public.api_token (
    id character varying(36) NOT NULL,
    subject character varying(250) NOT NULL,
    role character varying(16) NOT NULL,
    token_hash character varying(64) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone
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
    expires_at timestamp with time zone NOT NULL
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
    updated_at timestamp with time zone NOT NULL
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
CREATE TABLE public.queued_event (
    dag_id character varying(250) NOT NULL,
    event_id bigint NOT NULL,
    asset_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
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
    ended_at timestamp with time zone
);
CREATE TABLE public.triggerer (
    id character varying(36) NOT NULL,
    host character varying(255) NOT NULL,
    pid integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
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
    lag_seconds integer
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
    updated_at timestamp with time zone
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
ALTER TABLE ONLY public.run ALTER COLUMN id SET DEFAULT nextval('public.run_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0001');
INSERT INTO public.asset VALUES (1, 'inbox', 'inbox', 'asset', '{}', 'yaml', true, NULL, '2026-11-22 14:41:12.042961+00', '2026-11-22 14:41:12.042962+00');
INSERT INTO public.asset VALUES (2, 'numbers', 'numbers', 'asset', '{}', 'yaml', true, NULL, '2026-11-22 14:41:12.047277+00', '2026-11-22 14:41:12.047277+00');
INSERT INTO public.asset VALUES (3, 'loaded', 'loaded', 'asset', '{}', 'yaml', true, NULL, '2026-11-22 14:41:12.048922+00', '2026-11-22 14:41:12.048922+00');
INSERT INTO public.asset VALUES (4, 'slow', 'slow', 'asset', '{}', 'yaml', true, NULL, '2026-11-22 14:41:12.060021+00', '2026-11-22 14:41:12.060022+00');
INSERT INTO public.asset VALUES (5, 'all', 'all', 'asset', '{}', 'yaml', true, NULL, '2026-11-22 14:41:12.074364+00', '2026-11-22 14:41:12.074365+00');
INSERT INTO public.asset_event VALUES (1, 1, '{"watcher": "inbox_files", "event_id": "9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59", "count": 1, "watermark": {"from": "2026-11-22T14:41:16.351326Z", "to": "2026-11-22T14:41:16.960609Z"}, "files": [{"path": "/the/folder/inbox/a.csv", "size": 5, "last_modified": "2026-11-22T14:41:16.704120Z"}]}', '2026-11-22 14:41:16.999501+00', '9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59', '022ddfdf517c4ab3a19d49569a3010ae', NULL, NULL, NULL, -1, 'inbox_files', NULL);
INSERT INTO public.asset_event VALUES (2, 3, '{}', '2026-11-22 14:41:20.924619+00', NULL, '527a86ba7912412e8f620160226cd09c', 'load', 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', 'load', -1, NULL, NULL);
INSERT INTO public.asset_event VALUES (3, 1, '{"watcher": "inbox_files", "event_id": "c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc", "count": 1, "watermark": {"from": "2026-11-22T14:41:21.077834Z", "to": "2026-11-22T14:41:21.340906Z"}, "files": [{"path": "/the/folder/inbox/b.csv", "size": 5, "last_modified": "2026-11-22T14:41:21.194981Z"}]}', '2026-11-22 14:41:21.413896+00', 'c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc', 'e83be046db6f4b7483c6a181f88ae605', NULL, NULL, NULL, -1, 'inbox_files', NULL);
INSERT INTO public.asset_event VALUES (4, 3, '{}', '2026-11-22 14:41:25.287705+00', NULL, '9b63490899574443ae535e3bb82a9853', 'load', 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', 'load', -1, NULL, NULL);
INSERT INTO public.asset_event VALUES (5, 2, '{"watcher": "number_files", "event_id": "4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2", "count": 1, "watermark": {"from": "2026-11-22T14:41:25.518732Z", "to": "2026-11-22T14:41:25.751252Z"}, "files": [{"path": "/the/folder/numbers/one.csv", "size": 7, "last_modified": "2026-11-22T14:41:25.651448Z"}]}', '2026-11-22 14:41:25.842353+00', '4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2', '3237cba559d843acaee38bc3693260e4', NULL, NULL, NULL, -1, 'number_files', NULL);
INSERT INTO public.asset_store VALUES (3, 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', '["a.csv"]', false, 1, '2026-11-22 14:41:20.660702+00', 'task', 'load', 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', 'load', -1, NULL, NULL, 'f1316704bd1c42eabac094e6774a9134');
INSERT INTO public.asset_store VALUES (1, 'inbox_files.watermark', '{"up_to": "2026-11-22T14:41:21.340906Z", "horizon": null, "seen": 2, "scan": null}', false, 3, '2026-11-22 14:41:21.507178+00', 'watcher', NULL, NULL, NULL, NULL, 'inbox_files', NULL, '278e600238d24b23a1c7e2624a8ddf4a');
INSERT INTO public.asset_store VALUES (3, 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', '["b.csv"]', false, 1, '2026-11-22 14:41:25.102415+00', 'task', 'load', 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', 'load', -1, NULL, NULL, '36fe9e97b1bf44adb3896d0734aa91f9');
INSERT INTO public.asset_store VALUES (2, 'number_files.watermark', '{"up_to": "2026-11-22T14:41:25.751252Z", "horizon": null, "seen": 1, "scan": null}', false, 2, '2026-11-22 14:41:25.923103+00', 'watcher', NULL, NULL, NULL, NULL, 'number_files', NULL, '41d19488acc148d9bb4d63f4c6261db5');
INSERT INTO public.asset_store VALUES (4, 'began', '"asset_triggered__2026-11-22T14:41:26.130174+00:00_0"', false, 1, '2026-11-22 14:41:28.761346+00', 'task', 'slow', 'asset_triggered__2026-11-22T14:41:26.130174+00:00_0', 'slow', -1, NULL, NULL, '08978c2e61f4414b8a8c3ec935fe3695');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 1, '{"up_to": "2026-11-22T14:41:16.351326Z", "horizon": null, "seen": 0, "scan": null}', false, false, '2026-11-22 14:41:16.496815+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '985c7d0d4029439d8435c759d388edee');
INSERT INTO public.asset_store_history VALUES (2, 'number_files.watermark', 1, '{"up_to": "2026-11-22T14:41:16.387601Z", "horizon": null, "seen": 0, "scan": null}', false, false, '2026-11-22 14:41:16.521865+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'number_files', NULL, 'd3667332f85b421b863a50505e4472b8');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 2, '{"up_to": "2026-11-22T14:41:16.960609Z", "horizon": null, "seen": 1, "scan": null}', false, false, '2026-11-22 14:41:17.061476+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '843cf7d2e06b4d1dbf80a75f3ab87f9c');
INSERT INTO public.asset_store_history VALUES (3, 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', 1, '["a.csv"]', false, false, '2026-11-22 14:41:20.660767+00', 'task', 'load', 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', 'load', -1, 1, NULL, NULL, 'f1316704bd1c42eabac094e6774a9134');
INSERT INTO public.asset_store_history VALUES (1, 'inbox_files.watermark', 3, '{"up_to": "2026-11-22T14:41:21.340906Z", "horizon": null, "seen": 2, "scan": null}', false, false, '2026-11-22 14:41:21.507217+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'inbox_files', NULL, '278e600238d24b23a1c7e2624a8ddf4a');
INSERT INTO public.asset_store_history VALUES (3, 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', 1, '["b.csv"]', false, false, '2026-11-22 14:41:25.102486+00', 'task', 'load', 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', 'load', -1, 1, NULL, NULL, '36fe9e97b1bf44adb3896d0734aa91f9');
INSERT INTO public.asset_store_history VALUES (2, 'number_files.watermark', 2, '{"up_to": "2026-11-22T14:41:25.751252Z", "horizon": null, "seen": 1, "scan": null}', false, false, '2026-11-22 14:41:25.923144+00', 'watcher', NULL, NULL, NULL, NULL, NULL, 'number_files', NULL, '41d19488acc148d9bb4d63f4c6261db5');
INSERT INTO public.asset_store_history VALUES (4, 'began', 1, '"asset_triggered__2026-11-22T14:41:26.130174+00:00_0"', false, false, '2026-11-22 14:41:28.761436+00', 'task', 'slow', 'asset_triggered__2026-11-22T14:41:26.130174+00:00_0', 'slow', -1, 1, NULL, NULL, '08978c2e61f4414b8a8c3ec935fe3695');
INSERT INTO public.audit VALUES (1, '2026-11-22 14:41:16.492463+00', 'anonymous', 'job.pause', 'held', '{}', '90d752ec80264f0a85b43126ba6c9c60');
INSERT INTO public.dispatcher VALUES ('b837f211-34a6-4c39-add5-7fd3b214f420', 'vm', 24426, '2026-11-22 14:41:27.722559+00', '2026-11-22 14:41:32.722559+00');
INSERT INTO public.execution_answer VALUES ('06f19c69-6719-41e7-a527-74b94ae6a3b3', 'be0a047a03c44b8f9a3fb962a25d90ef', '61e5921850a471f850e99297def53cd1545d1cf3e4127ef693f16eedc7aa070b', 200, '{"dag_id":"load","run_id":"asset_triggered__2026-11-22T14:41:17.207656+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"06f19c69-6719-41e7-a527-74b94ae6a3b3","triggering_asset_events":{"inbox":[{"id":1,"timestamp":"2026-11-22T14:41:16.999501Z","extra":{"watcher":"inbox_files","event_id":"9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59","count":1,"watermark":{"from":"2026-11-22T14:41:16.351326Z","to":"2026-11-22T14:41:16.960609Z"},"files":[{"path":"/the/folder/inbox/a.csv","size":5,"last_modified":"2026-11-22T14:41:16.704120Z"}]},"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"created_dagruns":[],"source_task_id":null,"source_dag_id":null,"source_run_id":null,"source_map_index":-1,"source_watcher":"inbox_files","partition_key":null,"source_dag_run":null,"source_task_instance":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-22 14:41:20.040117+00');
INSERT INTO public.execution_answer VALUES ('06f19c69-6719-41e7-a527-74b94ae6a3b3', 'fd4e23fc03d54eac8f937c5b527243cc', '1ca80bddb20449ff95c201554867d8d8f590a01af7c00dcc6c6cbc52ab3ad561', 204, NULL, '2026-11-22 14:41:20.654616+00');
INSERT INTO public.execution_answer VALUES ('06f19c69-6719-41e7-a527-74b94ae6a3b3', '9699bb3cbb5f44d285f5f0a7368ada4b', 'a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1', 200, '{}', '2026-11-22 14:41:20.766815+00');
INSERT INTO public.execution_answer VALUES ('f4df5c6d-9cbb-456c-87c0-1f95f97136f8', 'ecfa2e28f585481194882b1e4807f8ed', '998769deff725488003d806bd32cecfa5f05aed73e0d260046ad6387823434fb', 200, '{"dag_id":"load","run_id":"asset_triggered__2026-11-22T14:41:21.728197+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"f4df5c6d-9cbb-456c-87c0-1f95f97136f8","triggering_asset_events":{"inbox":[{"id":3,"timestamp":"2026-11-22T14:41:21.413896Z","extra":{"watcher":"inbox_files","event_id":"c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc","count":1,"watermark":{"from":"2026-11-22T14:41:21.077834Z","to":"2026-11-22T14:41:21.340906Z"},"files":[{"path":"/the/folder/inbox/b.csv","size":5,"last_modified":"2026-11-22T14:41:21.194981Z"}]},"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"created_dagruns":[],"source_task_id":null,"source_dag_id":null,"source_run_id":null,"source_map_index":-1,"source_watcher":"inbox_files","partition_key":null,"source_dag_run":null,"source_task_instance":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-22 14:41:24.897699+00');
INSERT INTO public.execution_answer VALUES ('f4df5c6d-9cbb-456c-87c0-1f95f97136f8', '4327e1ceed4844828f2788758e3b3310', 'b8b1ba50f6b542da70c811d0d56e3646024a5c551d90b8a47c845f423d0a3e2f', 204, NULL, '2026-11-22 14:41:25.084863+00');
INSERT INTO public.execution_answer VALUES ('f4df5c6d-9cbb-456c-87c0-1f95f97136f8', 'd1aceb166a904df99767989abed3a632', 'a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1', 200, '{}', '2026-11-22 14:41:25.138948+00');
INSERT INTO public.execution_answer VALUES ('4602a150-ac1d-4ad9-8357-a35bd8679132', 'ab8833bba0ac4dcbadb4b56b0bd1fd3c', 'b0ca4fb84ec98f7112b577ad20a0373edb25b613a26685987c897229d0b75838', 200, '{"dag_id":"slow","run_id":"asset_triggered__2026-11-22T14:41:26.130174+00:00_0","task_id":"slow","map_index":-1,"try_number":1,"task_instance_id":"4602a150-ac1d-4ad9-8357-a35bd8679132","triggering_asset_events":{"numbers":[{"id":5,"timestamp":"2026-11-22T14:41:25.842353Z","extra":{"watcher":"number_files","event_id":"4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2","count":1,"watermark":{"from":"2026-11-22T14:41:25.518732Z","to":"2026-11-22T14:41:25.751252Z"},"files":[{"path":"/the/folder/numbers/one.csv","size":7,"last_modified":"2026-11-22T14:41:25.651448Z"}]},"asset":{"name":"numbers","uri":"numbers","group":"asset","extra":{}},"created_dagruns":[],"source_task_id":null,"source_dag_id":null,"source_run_id":null,"source_map_index":-1,"source_watcher":"number_files","partition_key":null,"source_dag_run":null,"source_task_instance":null}]},"inlets":[],"outlets":[{"name":"slow","uri":"slow"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}', '2026-11-22 14:41:28.59138+00');
INSERT INTO public.execution_answer VALUES ('4602a150-ac1d-4ad9-8357-a35bd8679132', '9188387e1063447dbb94dcdc490c83e3', 'd815d6023e64af3d4f15774213fc49d8e56df1cf7763e9ef0ce9ce96bdc26541', 204, NULL, '2026-11-22 14:41:28.756592+00');
INSERT INTO public.execution_answer VALUES ('4602a150-ac1d-4ad9-8357-a35bd8679132', '854305711f924a7190b25168a365ef84', 'f9ddb5562677ebbce0a4797f2c61c753bac4ee46042ec8213193813ba4b996aa', 204, NULL, '2026-11-22 14:41:28.790626+00');
INSERT INTO public.job VALUES ('load', 'load', true, false, '{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/load.py", "master": "local[*]"}, "options": {}}', NULL, NULL, NULL, '2026-11-22 14:41:12.14166+00', '2026-11-22 14:41:12.14166+00');
INSERT INTO public.job VALUES ('slow', 'slow', true, false, '{"schedule": "numbers", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/slow.py", "master": "local[*]"}, "options": {}}', NULL, NULL, NULL, '2026-11-22 14:41:12.141923+00', '2026-11-22 14:41:12.141923+00');
INSERT INTO public.job VALUES ('both', 'load', true, false, '{"schedule": {"all": ["inbox", "slow"]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/load.py", "master": "local[*]"}, "options": {}}', NULL, NULL, NULL, '2026-11-22 14:41:12.141948+00', '2026-11-22 14:41:12.141948+00');
INSERT INTO public.job VALUES ('held', 'load', true, true, '{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/load.py", "master": "local[*]"}, "options": {}}', NULL, NULL, NULL, '2026-11-22 14:41:12.141886+00', '2026-11-22 14:41:12.141886+00');
INSERT INTO public.job_outlet VALUES ('both', 3);
INSERT INTO public.job_outlet VALUES ('held', 3);
INSERT INTO public.job_outlet VALUES ('load', 3);
INSERT INTO public.job_outlet VALUES ('slow', 4);
INSERT INTO public.job_schedule_asset VALUES ('both', 1);
INSERT INTO public.job_schedule_asset VALUES ('both', 4);
INSERT INTO public.job_schedule_asset VALUES ('held', 1);
INSERT INTO public.job_schedule_asset VALUES ('load', 1);
INSERT INTO public.job_schedule_asset VALUES ('slow', 2);
INSERT INTO public.leader VALUES (1, 'b837f211-34a6-4c39-add5-7fd3b214f420', 1, '2026-11-22 14:41:33.824661+00');
INSERT INTO public.queued_event VALUES ('both', 1, 1, '2026-11-22 14:41:16.999501+00');
INSERT INTO public.queued_event VALUES ('held', 1, 1, '2026-11-22 14:41:16.999501+00');
INSERT INTO public.queued_event VALUES ('both', 3, 1, '2026-11-22 14:41:21.413896+00');
INSERT INTO public.queued_event VALUES ('held', 3, 1, '2026-11-22 14:41:21.413896+00');
INSERT INTO public.run VALUES (1, 'load', 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', 'asset_triggered', 'asset', 'success', NULL, NULL, '{}', NULL, '527a86ba7912412e8f620160226cd09c', NULL, NULL, NULL, '2026-11-22 14:41:17.211772+00', '2026-11-22 14:41:17.211773+00', '2026-11-22 14:41:17.542553+00', '2026-11-22 14:41:20.798011+00');
INSERT INTO public.run VALUES (2, 'load', 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', 'asset_triggered', 'asset', 'success', NULL, NULL, '{}', NULL, '9b63490899574443ae535e3bb82a9853', NULL, NULL, NULL, '2026-11-22 14:41:21.746423+00', '2026-11-22 14:41:21.746424+00', '2026-11-22 14:41:22.000372+00', '2026-11-22 14:41:25.179472+00');
INSERT INTO public.run VALUES (3, 'slow', 'asset_triggered__2026-11-22T14:41:26.130174+00:00_0', 'asset_triggered', 'asset', 'running', NULL, NULL, '{}', NULL, 'a85e9eeb4cf24c75833ff2abcd5ad79e', NULL, NULL, NULL, '2026-11-22 14:41:26.136277+00', '2026-11-22 14:41:26.136278+00', '2026-11-22 14:41:26.30865+00', NULL);
INSERT INTO public.run_asset_event VALUES ('load', 1, 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', true);
INSERT INTO public.run_asset_event VALUES ('load', 3, 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', true);
INSERT INTO public.run_asset_event VALUES ('slow', 5, 'asset_triggered__2026-11-22T14:41:26.130174+00:00_0', true);
INSERT INTO public.setting VALUES ('configuration_hash', '13b590c4818b9b40f78807901d6b2472997d1f9ecbf371c6119f4dcd58721054');
INSERT INTO public.task_instance VALUES ('06f19c69-6719-41e7-a527-74b94ae6a3b3', 'load', 'asset_triggered__2026-11-22T14:41:17.207656+00:00_0', 'load', -1, 'own', 1, 'success', NULL, NULL, '2026-11-22 14:41:18.918369+00', '2026-11-22 14:41:20.795173+00');
INSERT INTO public.task_instance VALUES ('f4df5c6d-9cbb-456c-87c0-1f95f97136f8', 'load', 'asset_triggered__2026-11-22T14:41:21.728197+00:00_0', 'load', -1, 'own', 1, 'success', NULL, NULL, '2026-11-22 14:41:23.025139+00', '2026-11-22 14:41:25.165739+00');
INSERT INTO public.task_instance VALUES ('4602a150-ac1d-4ad9-8357-a35bd8679132', 'slow', 'asset_triggered__2026-11-22T14:41:26.130174+00:00_0', 'slow', -1, 'own', 1, 'running', NULL, NULL, '2026-11-22 14:41:26.989782+00', NULL);
INSERT INTO public.task_store VALUES ('slow', 'asset_triggered__2026-11-22T14:41:26.130174+00:00_0', 'slow', -1, 'began', 'true', false, '2026-11-22 14:41:28.821006+00', '2026-12-22 14:41:28.784372+00', false);
INSERT INTO public.task_try VALUES ('06f19c69-6719-41e7-a527-74b94ae6a3b3', 1, 'b837f211-34a6-4c39-add5-7fd3b214f420', 'run-06f19c69-6719-41e7-a527-74b94ae6a3b3-1', '3ee75467697b69d8d31545a3f479d9901026f27fab9f5cf193013fd26ff456be', '{"folder": "/the/folder/home/runs/load/06f19c69-6719-41e7-a527-74b94ae6a3b3/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-22T14:41:17.207656+00:00_0/load/-1/1.log", "tag": "run-06f19c69-6719-41e7-a527-74b94ae6a3b3-1"}', 'c14a11376e314117a54022d31927bb42', 'success', NULL, NULL, 0, true, '2026-11-22 14:41:17.520217+00', '2026-11-22 14:41:18.947843+00', '2026-11-22 14:41:20.058447+00', NULL, '2026-11-22 14:41:21.715763+00');
INSERT INTO public.task_try VALUES ('f4df5c6d-9cbb-456c-87c0-1f95f97136f8', 1, 'b837f211-34a6-4c39-add5-7fd3b214f420', 'run-f4df5c6d-9cbb-456c-87c0-1f95f97136f8-1', 'ae45c36e5af8a4d67f689863e43e94674cf8ff485de01e66df62c996ef941f19', '{"folder": "/the/folder/home/runs/load/f4df5c6d-9cbb-456c-87c0-1f95f97136f8/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-22T14:41:21.728197+00:00_0/load/-1/1.log", "tag": "run-f4df5c6d-9cbb-456c-87c0-1f95f97136f8-1"}', 'd7669e5404654f3da61b915ff3ab0d08', 'success', NULL, NULL, 0, true, '2026-11-22 14:41:21.971492+00', '2026-11-22 14:41:23.046497+00', '2026-11-22 14:41:24.91979+00', NULL, '2026-11-22 14:41:25.920522+00');
INSERT INTO public.task_try VALUES ('4602a150-ac1d-4ad9-8357-a35bd8679132', 1, 'b837f211-34a6-4c39-add5-7fd3b214f420', 'run-4602a150-ac1d-4ad9-8357-a35bd8679132-1', '210739bc18d4f311650194269a868956c6760529cc2fc4bd04ea0f6424b266f2', '{"folder": "/the/folder/home/runs/slow/4602a150-ac1d-4ad9-8357-a35bd8679132/1", "log": "/the/folder/home/logs/runs/slow/asset_triggered__2026-11-22T14:41:26.130174+00:00_0/slow/-1/1.log", "tag": "run-4602a150-ac1d-4ad9-8357-a35bd8679132-1"}', 'c91f5483edb649eaa507849c7cc7865a', NULL, NULL, NULL, NULL, true, '2026-11-22 14:41:26.290123+00', '2026-11-22 14:41:26.998448+00', '2026-11-22 14:41:28.598912+00', NULL, NULL);
INSERT INTO public.triggerer VALUES ('1d5cdf21-f28b-4914-bdab-d3142c4eef44', 'vm', 24426, '2026-11-22 14:41:15.668173+00', '2026-11-22 14:41:29.077782+00', '2026-11-22 14:41:34.077782+00');
INSERT INTO public.watcher VALUES ('inbox_files', 1, 'file.new_files', true, false, 'running', NULL, 0, '2026-11-22 14:41:28.933842+00', '2026-11-22 14:41:21.520556+00', NULL);
INSERT INTO public.watcher VALUES ('number_files', 2, 'file.new_files', true, false, 'running', NULL, 0, '2026-11-22 14:41:29.144834+00', '2026-11-22 14:41:25.942841+00', NULL);
INSERT INTO public.watcher_position VALUES ('inbox_files', '{"match": null, "min_size": 0, "path": "/the/folder/inbox", "regex": null, "trigger": "file.new_files"}', '1d5cdf21-f28b-4914-bdab-d3142c4eef44', 1, 3, '{"up_to": "2026-11-22T14:41:21.340906Z", "horizon": null, "seen": 2, "scan": null}', '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-22T14:41:21.340906Z"}', NULL, '2026-11-22 14:41:21.375596+00');
INSERT INTO public.watcher_position VALUES ('number_files', '{"match": null, "min_size": 0, "path": "/the/folder/numbers", "regex": null, "trigger": "file.new_files"}', '1d5cdf21-f28b-4914-bdab-d3142c4eef44', 1, 2, '{"up_to": "2026-11-22T14:41:25.751252Z", "horizon": null, "seen": 1, "scan": null}', '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-22T14:41:25.751252Z"}', NULL, '2026-11-22 14:41:25.816394+00');
INSERT INTO public.watcher_position_row VALUES ('inbox_files', -450677015758315630, 1795358476704120);
INSERT INTO public.watcher_position_row VALUES ('inbox_files', 1830470694881595535, 1795358481194981);
INSERT INTO public.watcher_position_row VALUES ('number_files', -3220886645774548947, 1795358485651448);
SELECT pg_catalog.setval('public.asset_alias_id_seq', 1, false);
SELECT pg_catalog.setval('public.asset_event_id_seq', 5, true);
SELECT pg_catalog.setval('public.asset_id_seq', 5, true);
SELECT pg_catalog.setval('public.audit_id_seq', 1, true);
SELECT pg_catalog.setval('public.run_id_seq', 3, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
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
ALTER TABLE ONLY public.queued_event
    ADD CONSTRAINT pk_queued_event PRIMARY KEY (dag_id, event_id);
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
CREATE INDEX ix_asset_event_timestamp ON public.asset_event USING btree ("timestamp");
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
CREATE INDEX ix_queued_event_asset_id ON public.queued_event USING btree (asset_id);
CREATE INDEX ix_queued_event_event_id ON public.queued_event USING btree (event_id);
CREATE INDEX ix_run_asset_event_dag_id_run_id ON public.run_asset_event USING btree (dag_id, run_id);
CREATE INDEX ix_run_asset_event_event_id ON public.run_asset_event USING btree (event_id);
CREATE INDEX ix_run_state_dag_id ON public.run USING btree (state, dag_id);
CREATE INDEX ix_task_instance_state ON public.task_instance USING btree (state);
CREATE INDEX ix_task_store_expires_at ON public.task_store USING btree (expires_at);
CREATE INDEX ix_task_try_home_id_ended_at ON public.task_try USING btree (home_id, ended_at);
CREATE INDEX ix_watcher_asset_id ON public.watcher USING btree (asset_id);
CREATE INDEX ix_watcher_position_row_watcher_value ON public.watcher_position_row USING btree (watcher, value);
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
