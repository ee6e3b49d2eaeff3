BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0038');
CREATE TABLE alert (
	"key" VARCHAR(64) NOT NULL, 
	rule VARCHAR(64) NOT NULL, 
	alert VARCHAR(32) NOT NULL, 
	subject TEXT NOT NULL, 
	message TEXT NOT NULL, 
	since DATETIME NOT NULL, 
	is_fired BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_alert PRIMARY KEY ("key")
);
CREATE TABLE api_session (
	id_hash VARCHAR(64) NOT NULL, 
	token_id VARCHAR(36) NOT NULL, 
	expires_at DATETIME NOT NULL, 
	CONSTRAINT pk_api_session PRIMARY KEY (id_hash), 
	CONSTRAINT fk_api_session_token_id FOREIGN KEY(token_id) REFERENCES api_token (id)
);
CREATE TABLE api_token (
	id VARCHAR(36) NOT NULL, 
	subject VARCHAR(250) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	token_hash VARCHAR(64) NOT NULL, 
	created_at DATETIME NOT NULL, 
	revoked_at DATETIME, name VARCHAR(250), lifetime_seconds INTEGER, expires_at DATETIME, last_used_at DATETIME, 
	CONSTRAINT pk_api_token PRIMARY KEY (id), 
	CONSTRAINT uq_api_token_token_hash UNIQUE (token_hash)
);
CREATE TABLE asset (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR(1500) NOT NULL, 
	uri VARCHAR(1500) NOT NULL, 
	"group" VARCHAR(1500) DEFAULT ('') NOT NULL, 
	extra TEXT DEFAULT '{}' NOT NULL, 
	origin VARCHAR(8) NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	expect_every_seconds INTEGER, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, partition_parts TEXT, expect_by TEXT, 
	CONSTRAINT uq_asset_name UNIQUE (name), 
	CONSTRAINT uq_asset_uri UNIQUE (uri)
);
INSERT INTO "asset" VALUES(1,'inbox','inbox','asset','{}','yaml',1,NULL,'2026-11-28 17:24:15.079000','2026-11-28 17:24:15.079000',NULL,NULL);
INSERT INTO "asset" VALUES(2,'numbers','numbers','asset','{}','yaml',1,NULL,'2026-11-28 17:24:15.079000','2026-11-28 17:24:15.079000',NULL,NULL);
INSERT INTO "asset" VALUES(3,'loaded','loaded','asset','{}','yaml',1,NULL,'2026-11-28 17:24:15.079000','2026-11-28 17:24:15.079000',NULL,NULL);
INSERT INTO "asset" VALUES(4,'slow','slow','asset','{}','yaml',1,NULL,'2026-11-28 17:24:15.079000','2026-11-28 17:24:15.079000',NULL,NULL);
INSERT INTO "asset" VALUES(5,'all','all','asset','{}','yaml',1,NULL,'2026-11-28 17:24:15.079000','2026-11-28 17:24:15.079000',NULL,NULL);
INSERT INTO "asset" VALUES(6,'days','days','asset','{}','yaml',1,NULL,'2026-11-28 17:24:15.079000','2026-11-28 17:24:15.079000','["day", "region"]',NULL);
INSERT INTO "asset" VALUES(7,'notes','notes','asset','{}','yaml',1,NULL,'2026-11-28 17:24:15.079000','2026-11-28 17:24:15.079000','["day", "region"]',NULL);
CREATE TABLE asset_alias (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR(250) NOT NULL, 
	"group" VARCHAR(1500) DEFAULT ('') NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	CONSTRAINT uq_asset_alias_name UNIQUE (name)
);
INSERT INTO "asset_alias" VALUES(1,'parts','asset',1);
CREATE TABLE asset_alias_asset (
	alias_id INTEGER NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_asset_alias_asset PRIMARY KEY (alias_id, asset_id), 
	CONSTRAINT fk_asset_alias_asset_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_asset_alias_asset_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id) ON DELETE CASCADE
);
CREATE TABLE asset_alias_event (
	alias_id INTEGER NOT NULL, 
	event_id INTEGER NOT NULL, 
	CONSTRAINT pk_asset_alias_event PRIMARY KEY (alias_id, event_id), 
	CONSTRAINT fk_asset_alias_event_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_asset_alias_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id) ON DELETE CASCADE
);
CREATE TABLE asset_event (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	asset_id INTEGER NOT NULL, 
	extra TEXT DEFAULT '{}' NOT NULL, 
	timestamp DATETIME NOT NULL, 
	event_id VARCHAR(64), 
	trace_id VARCHAR(32) NOT NULL, 
	source_dag_id VARCHAR(250), 
	source_run_id VARCHAR(250), 
	source_task_id VARCHAR(250), 
	source_map_index INTEGER DEFAULT '-1' NOT NULL, 
	source_watcher VARCHAR(250), 
	source_actor VARCHAR(250), sketch_low BIGINT, sketch_high BIGINT, sketch_bits BIGINT, partition_key VARCHAR(250), sketch_more_bits BIGINT, 
	CONSTRAINT fk_asset_event_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT uq_asset_event_event_id UNIQUE (event_id)
);
INSERT INTO "asset_event" VALUES(1,1,'{"watcher": "inbox_files", "event_id": "9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59", "count": 1, "watermark": {"from": "2026-11-28T17:24:15.213418Z", "to": "2026-11-28T17:24:15.431906Z"}, "files": [{"path": "/the/folder/inbox/a.csv", "size": 5, "last_modified": "2026-11-28T17:24:15.331135Z", "inode": 9980815}]}','2026-11-28 17:24:15.455000','9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59','556ab2ef34262711da53b9c8a2700a00',NULL,NULL,NULL,-1,'inbox_files',NULL,NULL,NULL,2306441143539204096,NULL,NULL);
INSERT INTO "asset_event" VALUES(2,3,'{}','2026-11-28 17:24:15.644000',NULL,'556ab2ef34262711da53b9c8a2700a00','load','asset_triggered__2026-11-28T17:24:15.464000+00:00_0','load',-1,NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "asset_event" VALUES(3,1,'{"watcher": "inbox_files", "event_id": "c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc", "count": 1, "watermark": {"from": "2026-11-28T17:24:15.431906Z", "to": "2026-11-28T17:24:15.845928Z"}, "files": [{"path": "/the/folder/inbox/b.csv", "size": 5, "last_modified": "2026-11-28T17:24:15.667449Z", "inode": 9980837}]}','2026-11-28 17:24:15.879000','c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc','c7d4729cafc778a2a158a8797b123cdd',NULL,NULL,NULL,-1,'inbox_files',NULL,NULL,NULL,545259520,NULL,NULL);
INSERT INTO "asset_event" VALUES(4,3,'{}','2026-11-28 17:24:16.042000',NULL,'c7d4729cafc778a2a158a8797b123cdd','load','asset_triggered__2026-11-28T17:24:15.890000+00:00_0','load',-1,NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "asset_event" VALUES(5,6,'{"watcher": "day_files", "event_id": "190f3c7238390d8eb108d24f5a891ba66af75ea23c45690fa290e822e5b159e2", "count": 1, "watermark": {"from": "2026-11-28T17:24:15.212480Z", "to": "2026-11-28T17:24:16.274866Z"}, "files": [{"path": "/the/folder/days/dt=1/region=eu/d.csv", "size": 5, "last_modified": "2026-11-28T17:24:16.099021Z", "inode": 9980853}]}','2026-11-28 17:24:16.297000','190f3c7238390d8eb108d24f5a891ba66af75ea23c45690fa290e822e5b159e2','617b1368f71fe41b9cfa7731328e6182',NULL,NULL,NULL,-1,'day_files',NULL,NULL,NULL,20488,'1|eu',NULL);
INSERT INTO "asset_event" VALUES(6,6,'{"watcher": "day_files", "event_id": "990de6247465af730f7eb8e98468791b3cbf725c2fa77b92b9a9722c3cc3bf98", "count": 1, "watermark": {"from": "2026-11-28T17:24:15.212480Z", "to": "2026-11-28T17:24:16.274866Z"}, "files": [{"path": "/the/folder/days/dt=1/region=us/e.csv", "size": 5, "last_modified": "2026-11-28T17:24:16.099575Z", "inode": 9980855}]}','2026-11-28 17:24:16.297000','990de6247465af730f7eb8e98468791b3cbf725c2fa77b92b9a9722c3cc3bf98','d96c689073134e3a2716ea08e833eca6',NULL,NULL,NULL,-1,'day_files',NULL,NULL,NULL,4503599631572992,'1|us',NULL);
INSERT INTO "asset_event" VALUES(7,6,'{"watcher": "day_files", "event_id": "98780f5bd2dd73f9cb881ea1945973a42992633f9baf0730cdcb2ecf4560a3b7", "count": 1, "watermark": {"from": "2026-11-28T17:24:15.212480Z", "to": "2026-11-28T17:24:16.274866Z"}, "files": [{"path": "/the/folder/days/dt=2/region=eu/f.csv", "size": 5, "last_modified": "2026-11-28T17:24:16.100465Z", "inode": 9980858}]}','2026-11-28 17:24:16.297000','98780f5bd2dd73f9cb881ea1945973a42992633f9baf0730cdcb2ecf4560a3b7','5b418408761a7d494d534344c183001d',NULL,NULL,NULL,-1,'day_files',NULL,NULL,NULL,4611686018427388162,'2|eu',NULL);
INSERT INTO "asset_event" VALUES(8,3,'{}','2026-11-28 17:24:16.467000',NULL,'d96c689073134e3a2716ea08e833eca6','daily','asset_triggered__2026-11-28T17:24:16.302000+00:00_0','load',-1,NULL,NULL,NULL,NULL,0,'1',NULL);
INSERT INTO "asset_event" VALUES(9,2,'{"watcher": "number_files", "event_id": "4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2", "count": 1, "watermark": {"from": "2026-11-28T17:24:15.213628Z", "to": "2026-11-28T17:24:16.691731Z"}, "files": [{"path": "/the/folder/numbers/one.csv", "size": 7, "last_modified": "2026-11-28T17:24:16.667877Z", "inode": 9980874}]}','2026-11-28 17:24:16.718000','4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2','a5cc3af5b48f79aaf6ea219ed37ee137',NULL,NULL,NULL,-1,'number_files',NULL,NULL,NULL,576460769483296768,NULL,NULL);
CREATE TABLE asset_forward (
	asset_id INTEGER NOT NULL, 
	target VARCHAR(1500) NOT NULL, with_partition_key BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_asset_forward PRIMARY KEY (asset_id), 
	CONSTRAINT fk_asset_forward_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "asset_forward" VALUES(3,'theirs',0);
CREATE TABLE asset_store (
	asset_id INTEGER NOT NULL, 
	"key" VARCHAR(512) NOT NULL, 
	value TEXT NOT NULL, 
	is_ref BOOLEAN DEFAULT 0 NOT NULL, 
	version BIGINT NOT NULL, 
	updated_at DATETIME NOT NULL, 
	last_updated_by_kind VARCHAR(16), 
	last_updated_by_dag_id VARCHAR(250), 
	last_updated_by_run_id VARCHAR(250), 
	last_updated_by_task_id VARCHAR(250), 
	last_updated_by_map_index INTEGER, 
	last_updated_by_watcher VARCHAR(250), 
	last_updated_by_actor VARCHAR(250), 
	last_updated_by_write_id VARCHAR(64), 
	CONSTRAINT pk_asset_store PRIMARY KEY (asset_id, "key"), 
	CONSTRAINT fk_asset_store_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "asset_store" VALUES(6,'day_files.watermark','{"up_to": "2026-11-28T17:24:16.274866Z", "horizon": null, "seen": 3, "scan": null}',0,2,'2026-11-28 17:24:16.299000','watcher',NULL,NULL,NULL,NULL,'day_files',NULL,'8b7ab253a7d2855d6adb153083c1e7c2');
INSERT INTO "asset_store" VALUES(2,'number_files.watermark','{"up_to": "2026-11-28T17:24:16.691731Z", "horizon": null, "seen": 1, "scan": null}',0,2,'2026-11-28 17:24:16.718000','watcher',NULL,NULL,NULL,NULL,'number_files',NULL,'cdcf2ee0e1bd09dd3e8ca0317f74d5ec');
INSERT INTO "asset_store" VALUES(1,'inbox_files.watermark','{"up_to": "2026-11-28T17:24:15.845928Z", "horizon": null, "seen": 2, "scan": null}',0,3,'2026-11-28 17:24:15.882000','watcher',NULL,NULL,NULL,NULL,'inbox_files',NULL,'00f25547520d16be6346c6b808e71e4b');
INSERT INTO "asset_store" VALUES(3,'asset_triggered__2026-11-28T17:24:15.464000+00:00_0','["a.csv"]',0,1,'2026-11-28 17:24:15.634000','task','load','asset_triggered__2026-11-28T17:24:15.464000+00:00_0','load',-1,NULL,NULL,'db7e8d5859b7477ebfe9b141dee814a5');
INSERT INTO "asset_store" VALUES(3,'asset_triggered__2026-11-28T17:24:15.890000+00:00_0','["b.csv"]',0,1,'2026-11-28 17:24:16.035000','task','load','asset_triggered__2026-11-28T17:24:15.890000+00:00_0','load',-1,NULL,NULL,'8291df12cf1a47f9b3aeb4560f33f6f5');
INSERT INTO "asset_store" VALUES(3,'asset_triggered__2026-11-28T17:24:16.302000+00:00_0','["d.csv", "e.csv"]',0,1,'2026-11-28 17:24:16.461000','task','daily','asset_triggered__2026-11-28T17:24:16.302000+00:00_0','load',-1,NULL,NULL,'5bdaf17891a044e4b4b6e6904ca452c5');
INSERT INTO "asset_store" VALUES(4,'began','"asset_triggered__2026-11-28T17:24:16.721000+00:00_0"',0,1,'2026-11-28 17:24:16.869000','task','slow','asset_triggered__2026-11-28T17:24:16.721000+00:00_0','slow',-1,NULL,NULL,'84792cbfe6a348a9b8247a2257e38bae');
CREATE TABLE asset_store_history (
	asset_id INTEGER NOT NULL, 
	"key" VARCHAR(512) NOT NULL, 
	version BIGINT NOT NULL, 
	value TEXT, 
	is_ref BOOLEAN DEFAULT 0 NOT NULL, 
	deleted BOOLEAN DEFAULT 0 NOT NULL, 
	written_at DATETIME NOT NULL, 
	kind VARCHAR(16), 
	dag_id VARCHAR(250), 
	run_id VARCHAR(250), 
	task_id VARCHAR(250), 
	map_index INTEGER, 
	try_number INTEGER, 
	watcher VARCHAR(250), 
	actor VARCHAR(250), 
	write_id VARCHAR(64), 
	CONSTRAINT pk_asset_store_history PRIMARY KEY (asset_id, "key", version), 
	CONSTRAINT fk_asset_store_history_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "asset_store_history" VALUES(6,'day_files.watermark',1,'{"up_to": "2026-11-28T17:24:15.212480Z", "horizon": null, "seen": 0, "scan": null}',0,0,'2026-11-28 17:24:15.247000','watcher',NULL,NULL,NULL,NULL,NULL,'day_files',NULL,'453c708966673ad576e787d8ec8117d5');
INSERT INTO "asset_store_history" VALUES(2,'number_files.watermark',1,'{"up_to": "2026-11-28T17:24:15.213628Z", "horizon": null, "seen": 0, "scan": null}',0,0,'2026-11-28 17:24:15.252000','watcher',NULL,NULL,NULL,NULL,NULL,'number_files',NULL,'fe9d0c8880b7db0a80a6aed08df5a711');
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',1,'{"up_to": "2026-11-28T17:24:15.213418Z", "horizon": null, "seen": 0, "scan": null}',0,0,'2026-11-28 17:24:15.253000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'2a45c2349af2fc9804d6b396957532d0');
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',2,'{"up_to": "2026-11-28T17:24:15.431906Z", "horizon": null, "seen": 1, "scan": null}',0,0,'2026-11-28 17:24:15.458000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'d907e62a7b0ad9a0b59d470370112040');
INSERT INTO "asset_store_history" VALUES(3,'asset_triggered__2026-11-28T17:24:15.464000+00:00_0',1,'["a.csv"]',0,0,'2026-11-28 17:24:15.635000','task','load','asset_triggered__2026-11-28T17:24:15.464000+00:00_0','load',-1,1,NULL,NULL,'db7e8d5859b7477ebfe9b141dee814a5');
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',3,'{"up_to": "2026-11-28T17:24:15.845928Z", "horizon": null, "seen": 2, "scan": null}',0,0,'2026-11-28 17:24:15.883000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'00f25547520d16be6346c6b808e71e4b');
INSERT INTO "asset_store_history" VALUES(3,'asset_triggered__2026-11-28T17:24:15.890000+00:00_0',1,'["b.csv"]',0,0,'2026-11-28 17:24:16.036000','task','load','asset_triggered__2026-11-28T17:24:15.890000+00:00_0','load',-1,1,NULL,NULL,'8291df12cf1a47f9b3aeb4560f33f6f5');
INSERT INTO "asset_store_history" VALUES(6,'day_files.watermark',2,'{"up_to": "2026-11-28T17:24:16.274866Z", "horizon": null, "seen": 3, "scan": null}',0,0,'2026-11-28 17:24:16.299000','watcher',NULL,NULL,NULL,NULL,NULL,'day_files',NULL,'8b7ab253a7d2855d6adb153083c1e7c2');
INSERT INTO "asset_store_history" VALUES(3,'asset_triggered__2026-11-28T17:24:16.302000+00:00_0',1,'["d.csv", "e.csv"]',0,0,'2026-11-28 17:24:16.462000','task','daily','asset_triggered__2026-11-28T17:24:16.302000+00:00_0','load',-1,1,NULL,NULL,'5bdaf17891a044e4b4b6e6904ca452c5');
INSERT INTO "asset_store_history" VALUES(2,'number_files.watermark',2,'{"up_to": "2026-11-28T17:24:16.691731Z", "horizon": null, "seen": 1, "scan": null}',0,0,'2026-11-28 17:24:16.718000','watcher',NULL,NULL,NULL,NULL,NULL,'number_files',NULL,'cdcf2ee0e1bd09dd3e8ca0317f74d5ec');
INSERT INTO "asset_store_history" VALUES(4,'began',1,'"asset_triggered__2026-11-28T17:24:16.721000+00:00_0"',0,0,'2026-11-28 17:24:16.869000','task','slow','asset_triggered__2026-11-28T17:24:16.721000+00:00_0','slow',-1,1,NULL,NULL,'84792cbfe6a348a9b8247a2257e38bae');
CREATE TABLE asset_store_increment (
	task_instance_id VARCHAR(36) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	ordinal INTEGER NOT NULL, 
	CONSTRAINT pk_asset_store_increment PRIMARY KEY (task_instance_id, asset_id, ordinal), 
	CONSTRAINT fk_asset_store_increment_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_asset_store_increment_task_instance_id FOREIGN KEY(task_instance_id) REFERENCES task_instance (id) ON DELETE CASCADE
);
CREATE TABLE audit (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DATETIME NOT NULL, 
	actor VARCHAR(250) NOT NULL, 
	action VARCHAR(64) NOT NULL, 
	target VARCHAR(2000) NOT NULL, 
	detail TEXT DEFAULT '{}' NOT NULL, 
	write_id VARCHAR(64)
);
INSERT INTO "audit" VALUES(1,'2026-11-28 17:24:15.315000','anonymous','job.pause','held','{}','2d5b1819496746f597d308668c1d8bf2');
INSERT INTO "audit" VALUES(2,'2026-11-28 17:24:16.534000','anonymous','queued_events.delete','aliased','{"asset_id": null, "events": 2}','f7fdd0eb11bf4b079bea89639d091fea');
INSERT INTO "audit" VALUES(3,'2026-11-28 17:24:16.555000','anonymous','job.replay','aliased','{"replay_id": 1, "from": "2020-01-01T00:00:00+00:00", "to": "2100-01-01T00:00:00+00:00", "asset": null, "partition": null, "include_dropped": true, "events": 2}','a9146532203441e2a35ba81600041946');
INSERT INTO "audit" VALUES(4,'2026-11-28 17:24:16.666000','anonymous','queued_events.delete','aliased','{"asset_id": null, "events": 2}','c9a41323a28d4c5aa5eed8dbbaf0ac94');
CREATE TABLE cleaning (
	event_id INTEGER NOT NULL, 
	watcher VARCHAR(250) NOT NULL, 
	owed TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason VARCHAR(16), 
	due_at DATETIME, 
	passes INTEGER DEFAULT '0' NOT NULL, 
	next_file INTEGER DEFAULT '0' NOT NULL, 
	files TEXT, 
	staying TEXT DEFAULT '{}' NOT NULL, 
	working TEXT, 
	removed INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_cleaning PRIMARY KEY (event_id), 
	CONSTRAINT fk_cleaning_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id) ON DELETE CASCADE
);
INSERT INTO "cleaning" VALUES(5,'day_files','["daily"]','waiting',NULL,'2026-12-05 17:24:16.299000',0,0,NULL,'{}',NULL,0);
INSERT INTO "cleaning" VALUES(6,'day_files','["daily"]','waiting',NULL,'2026-12-05 17:24:16.299000',0,0,NULL,'{}',NULL,0);
INSERT INTO "cleaning" VALUES(7,'day_files','["daily"]','waiting',NULL,'2026-12-05 17:24:16.299000',0,0,NULL,'{}',NULL,0);
CREATE TABLE dispatcher (
	home_id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	pid INTEGER NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, configuration VARCHAR(64), 
	CONSTRAINT pk_dispatcher PRIMARY KEY (home_id)
);
INSERT INTO "dispatcher" VALUES('a1f285c4-df2b-4312-82b2-15ad637d9037','vm',16558,'2026-11-28 17:24:16.847000','2026-11-28 17:24:21.847000','2d956a3593a1dd3a0bae6653de76942e702fe7180ca1307596184efd0804e8f2');
CREATE TABLE dropped_event (
	dag_id VARCHAR(250) NOT NULL, 
	event_id INTEGER NOT NULL, 
	reason VARCHAR(32) NOT NULL, 
	actor VARCHAR(250), 
	dropped_at DATETIME NOT NULL, 
	CONSTRAINT pk_dropped_event PRIMARY KEY (dag_id, event_id), 
	CONSTRAINT fk_dropped_event_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id), 
	CONSTRAINT fk_dropped_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id) ON DELETE CASCADE
);
INSERT INTO "dropped_event" VALUES('aliased',1,'deleted','anonymous','2026-11-28 17:24:16.665000');
INSERT INTO "dropped_event" VALUES('aliased',3,'deleted','anonymous','2026-11-28 17:24:16.665000');
CREATE TABLE execution_answer (
	task_instance_id VARCHAR(36) NOT NULL, 
	"key" VARCHAR(255) NOT NULL, 
	request VARCHAR(64) NOT NULL, 
	status INTEGER NOT NULL, 
	body TEXT, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_execution_answer PRIMARY KEY (task_instance_id, "key")
);
INSERT INTO "execution_answer" VALUES('58f64ed1-6e7e-40dc-93bb-4b6b564fdb04','f411f91093b64e7cb3a74b8f19f43108','5db3d38ab6edf6fb32125d361770e0d7db152d8b7b92f01adbabfe85de59a353',200,'{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:24:15.464000+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"58f64ed1-6e7e-40dc-93bb-4b6b564fdb04","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":null,"partition_complete":null,"late":false,"triggering_asset_events":{"inbox":[{"id":1,"asset_id":1,"timestamp":"2026-11-28T17:24:15.455000Z","extra":{"watcher":"inbox_files","event_id":"9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59","count":1,"watermark":{"from":"2026-11-28T17:24:15.213418Z","to":"2026-11-28T17:24:15.431906Z"},"files":[{"path":"/the/folder/inbox/a.csv","size":5,"last_modified":"2026-11-28T17:24:15.331135Z","inode":9980815}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"556ab2ef34262711da53b9c8a2700a00","partition_key":null,"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-28 17:24:15.619000');
INSERT INTO "execution_answer" VALUES('58f64ed1-6e7e-40dc-93bb-4b6b564fdb04','9d9844fdc88e4181aee1615bdb865734','0c09b56ec8d40d42bc518e254f9f2a87400ae83a273d9090ab47334105a0ea15',204,NULL,'2026-11-28 17:24:15.634000');
INSERT INTO "execution_answer" VALUES('58f64ed1-6e7e-40dc-93bb-4b6b564fdb04','28498978f92d41058160d956e93386b5','a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1',200,'{}','2026-11-28 17:24:15.638000');
INSERT INTO "execution_answer" VALUES('07819157-40c7-465f-8dd4-a97f41784e40','1c4498c38fad48478b3a2baa8fab9eca','ba64d088f337a072e98346cb4754819472156a1b3356965afc4b27f3ba82a026',200,'{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:24:15.890000+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"07819157-40c7-465f-8dd4-a97f41784e40","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":null,"partition_complete":null,"late":false,"triggering_asset_events":{"inbox":[{"id":3,"asset_id":1,"timestamp":"2026-11-28T17:24:15.879000Z","extra":{"watcher":"inbox_files","event_id":"c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc","count":1,"watermark":{"from":"2026-11-28T17:24:15.431906Z","to":"2026-11-28T17:24:15.845928Z"},"files":[{"path":"/the/folder/inbox/b.csv","size":5,"last_modified":"2026-11-28T17:24:15.667449Z","inode":9980837}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"c7d4729cafc778a2a158a8797b123cdd","partition_key":null,"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-28 17:24:16.027000');
INSERT INTO "execution_answer" VALUES('07819157-40c7-465f-8dd4-a97f41784e40','9dba26a03aa04acfa43f5240e44fcea1','e43f244d4e034b706245b5bd4a5125bec7d634dfc29be730725d8d4ee4d2998b',204,NULL,'2026-11-28 17:24:16.035000');
INSERT INTO "execution_answer" VALUES('07819157-40c7-465f-8dd4-a97f41784e40','3c40e52c98714ac2bf4f6c3c2d6da804','a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1',200,'{}','2026-11-28 17:24:16.039000');
INSERT INTO "execution_answer" VALUES('1bc3e32f-034a-4dc5-beee-e42efc4358f4','2ebdb47b427f4353afa2007213bc210d','6b49b5a45203bd6c7d114fa5e758398c8fb92e63017c65f28566c084a1fe4d93',200,'{"dag_id":"daily","run_id":"asset_triggered__2026-11-28T17:24:16.302000+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"1bc3e32f-034a-4dc5-beee-e42efc4358f4","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":"1","partition_complete":true,"late":false,"triggering_asset_events":{"days":[{"id":5,"asset_id":6,"timestamp":"2026-11-28T17:24:16.297000Z","extra":{"watcher":"day_files","event_id":"190f3c7238390d8eb108d24f5a891ba66af75ea23c45690fa290e822e5b159e2","count":1,"watermark":{"from":"2026-11-28T17:24:15.212480Z","to":"2026-11-28T17:24:16.274866Z"},"files":[{"path":"/the/folder/days/dt=1/region=eu/d.csv","size":5,"last_modified":"2026-11-28T17:24:16.099021Z","inode":9980853}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"day_files","trace_id":"617b1368f71fe41b9cfa7731328e6182","partition_key":"1|eu","asset":{"name":"days","uri":"days","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]},{"id":6,"asset_id":6,"timestamp":"2026-11-28T17:24:16.297000Z","extra":{"watcher":"day_files","event_id":"990de6247465af730f7eb8e98468791b3cbf725c2fa77b92b9a9722c3cc3bf98","count":1,"watermark":{"from":"2026-11-28T17:24:15.212480Z","to":"2026-11-28T17:24:16.274866Z"},"files":[{"path":"/the/folder/days/dt=1/region=us/e.csv","size":5,"last_modified":"2026-11-28T17:24:16.099575Z","inode":9980855}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"day_files","trace_id":"d96c689073134e3a2716ea08e833eca6","partition_key":"1|us","asset":{"name":"days","uri":"days","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-28 17:24:16.453000');
INSERT INTO "execution_answer" VALUES('1bc3e32f-034a-4dc5-beee-e42efc4358f4','e72882ee17b14305a8c37e5a67932b9d','0c30c76b9bcc9e2426b781cf9002658d7b094460adc5df0b0c0184265fff93cd',204,NULL,'2026-11-28 17:24:16.461000');
INSERT INTO "execution_answer" VALUES('1bc3e32f-034a-4dc5-beee-e42efc4358f4','bacb95d8946a4495b392f1da385ce265','a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1',200,'{}','2026-11-28 17:24:16.465000');
INSERT INTO "execution_answer" VALUES('65c5b6fa-f07d-4b09-b55f-de00dee1e1d4','31d0adb9567d47c382c6e4f1079d0724','0655402ca674ce9b5d247636945a41b838d892f5a524ea0e49cd73a87adcbe22',200,'{"dag_id":"slow","run_id":"asset_triggered__2026-11-28T17:24:16.721000+00:00_0","task_id":"slow","map_index":-1,"try_number":1,"task_instance_id":"65c5b6fa-f07d-4b09-b55f-de00dee1e1d4","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"partition_key":null,"partition_complete":null,"late":false,"triggering_asset_events":{"numbers":[{"id":9,"asset_id":2,"timestamp":"2026-11-28T17:24:16.718000Z","extra":{"watcher":"number_files","event_id":"4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2","count":1,"watermark":{"from":"2026-11-28T17:24:15.213628Z","to":"2026-11-28T17:24:16.691731Z"},"files":[{"path":"/the/folder/numbers/one.csv","size":7,"last_modified":"2026-11-28T17:24:16.667877Z","inode":9980874}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"number_files","trace_id":"a5cc3af5b48f79aaf6ea219ed37ee137","partition_key":null,"asset":{"name":"numbers","uri":"numbers","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[]}]},"inlets":[],"outlets":[{"name":"slow","uri":"slow"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-28 17:24:16.861000');
INSERT INTO "execution_answer" VALUES('65c5b6fa-f07d-4b09-b55f-de00dee1e1d4','fb7c54b0319e46d1900b3ead4a7d56d9','06f810ad1b8675d94c9f95eb6c7760a115374426a4fadae65b90de007239f2f5',204,NULL,'2026-11-28 17:24:16.868000');
INSERT INTO "execution_answer" VALUES('65c5b6fa-f07d-4b09-b55f-de00dee1e1d4','0c725f67e4bf494690af6d40e94578b4','310fa191ce8a1c5dafd8d2012ed39b1726dcf3f5da62ad8895ef88cd393fafd5',204,NULL,'2026-11-28 17:24:16.872000');
CREATE TABLE job (
	dag_id VARCHAR(250) NOT NULL, 
	task_id VARCHAR(250) NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	paused BOOLEAN DEFAULT 0 NOT NULL, 
	definition TEXT NOT NULL, 
	cron VARCHAR(1000), 
	clock VARCHAR(1000), 
	next_tick DATETIME, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, rest_to BIGINT, rest_completed_by BIGINT, replay_id BIGINT, joint BOOLEAN DEFAULT 0 NOT NULL, partitioned BOOLEAN DEFAULT 0 NOT NULL, catchup_at BIGINT, catchup_to BIGINT, catchup_assets TEXT, 
	CONSTRAINT pk_job PRIMARY KEY (dag_id)
);
INSERT INTO "job" VALUES('load','load',1,0,'{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:24:15.085000','2026-11-28 17:24:15.085000',NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "job" VALUES('held','load',1,1,'{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:24:15.085000','2026-11-28 17:24:15.085000',NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "job" VALUES('slow','slow',1,0,'{"schedule": "numbers", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/slow.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:24:15.085000','2026-11-28 17:24:15.085000',NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "job" VALUES('both','load',1,0,'{"schedule": {"all": ["inbox", "slow"]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:24:15.085000','2026-11-28 17:24:15.085000',NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "job" VALUES('aliased','load',1,1,'{"schedule": {"any": ["inbox", {"alias": "parts"}]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": null, "complete": null, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:24:15.085000','2026-11-28 17:24:15.085000',NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "job" VALUES('daily','load',1,0,'{"schedule": "days", "batch": {"mode": "per_partition", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000, "by": ["day"], "complete": {"part": "region", "values": ["eu", "us"], "at_least": null, "items": null, "marker": null, "manifest": null}, "run_after": null}, "cron": null, "joint": false, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "due_by": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:24:15.085000','2026-11-28 17:24:15.085000',NULL,NULL,NULL,0,1,NULL,NULL,NULL);
CREATE TABLE job_inlet (
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_inlet PRIMARY KEY (dag_id, asset_id), 
	CONSTRAINT fk_job_inlet_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_job_inlet_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
CREATE TABLE job_inlet_alias (
	dag_id VARCHAR(250) NOT NULL, 
	alias_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_inlet_alias PRIMARY KEY (dag_id, alias_id), 
	CONSTRAINT fk_job_inlet_alias_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_job_inlet_alias_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
CREATE TABLE job_outlet (
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_outlet PRIMARY KEY (dag_id, asset_id), 
	CONSTRAINT fk_job_outlet_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_job_outlet_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
INSERT INTO "job_outlet" VALUES('both',3);
INSERT INTO "job_outlet" VALUES('daily',3);
INSERT INTO "job_outlet" VALUES('held',3);
INSERT INTO "job_outlet" VALUES('load',3);
INSERT INTO "job_outlet" VALUES('slow',4);
CREATE TABLE job_outlet_alias (
	dag_id VARCHAR(250) NOT NULL, 
	alias_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_outlet_alias PRIMARY KEY (dag_id, alias_id), 
	CONSTRAINT fk_job_outlet_alias_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_job_outlet_alias_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
CREATE TABLE job_schedule_alias (
	dag_id VARCHAR(250) NOT NULL, 
	alias_id INTEGER NOT NULL, filtered BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_job_schedule_alias PRIMARY KEY (dag_id, alias_id), 
	CONSTRAINT fk_job_schedule_alias_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_job_schedule_alias_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
INSERT INTO "job_schedule_alias" VALUES('aliased',1,0);
CREATE TABLE job_schedule_asset (
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, filtered BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_job_schedule_asset PRIMARY KEY (dag_id, asset_id), 
	CONSTRAINT fk_job_schedule_asset_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_job_schedule_asset_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
INSERT INTO "job_schedule_asset" VALUES('aliased',1,0);
INSERT INTO "job_schedule_asset" VALUES('both',1,0);
INSERT INTO "job_schedule_asset" VALUES('both',4,0);
INSERT INTO "job_schedule_asset" VALUES('daily',6,0);
INSERT INTO "job_schedule_asset" VALUES('held',1,0);
INSERT INTO "job_schedule_asset" VALUES('load',1,0);
INSERT INTO "job_schedule_asset" VALUES('slow',2,0);
CREATE TABLE leader (
	id INTEGER NOT NULL, 
	owner VARCHAR(36) NOT NULL, 
	epoch BIGINT NOT NULL, 
	expires_at DATETIME NOT NULL, start_reasons TEXT, 
	CONSTRAINT pk_leader PRIMARY KEY (id)
);
INSERT INTO "leader" VALUES(1,'a1f285c4-df2b-4312-82b2-15ad637d9037',1,'2026-11-28 17:24:21.668000',NULL);
CREATE TABLE listen_position (
	source VARCHAR(1500) NOT NULL, 
	newest DATETIME, 
	CONSTRAINT pk_listen_position PRIMARY KEY (source)
);
CREATE TABLE listen_seen (
	source VARCHAR(1500) NOT NULL, 
	event_id BIGINT NOT NULL, 
	timestamp DATETIME NOT NULL, 
	CONSTRAINT pk_listen_seen PRIMARY KEY (source, event_id, timestamp), 
	CONSTRAINT fk_listen_seen_source FOREIGN KEY(source) REFERENCES listen_position (source) ON DELETE CASCADE
);
CREATE TABLE outbox (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	destination VARCHAR(64) NOT NULL, 
	lane VARCHAR(250) NOT NULL, 
	message_id VARCHAR(250), 
	asset_event_id INTEGER, 
	body TEXT, 
	created_at DATETIME NOT NULL, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	first_attempt_at DATETIME, 
	attempt_at DATETIME, 
	not_before DATETIME, 
	refused BOOLEAN DEFAULT 0 NOT NULL, 
	error TEXT, 
	CONSTRAINT fk_outbox_asset_event_id FOREIGN KEY(asset_event_id) REFERENCES asset_event (id)
);
INSERT INTO "outbox" VALUES(1,'airflow','3',NULL,2,NULL,'2026-11-28 17:24:15.645000',2,'2026-11-28 17:24:15.674000',NULL,'2026-11-28 17:24:18.691000',0,'Airflow cannot be reached at http://127.0.0.1:9: All connection attempts failed');
INSERT INTO "outbox" VALUES(2,'airflow','3',NULL,4,NULL,'2026-11-28 17:24:16.042000',0,NULL,NULL,NULL,0,NULL);
INSERT INTO "outbox" VALUES(3,'airflow','3',NULL,8,NULL,'2026-11-28 17:24:16.468000',0,NULL,NULL,NULL,0,NULL);
CREATE TABLE partition_group (
	dag_id VARCHAR(250) NOT NULL, 
	"key" VARCHAR(250) NOT NULL, 
	rest_to BIGINT, 
	rest_completed_by BIGINT, 
	CONSTRAINT pk_partition_group PRIMARY KEY (dag_id, "key"), 
	CONSTRAINT fk_partition_group_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
INSERT INTO "partition_group" VALUES('daily','1',NULL,NULL);
CREATE TABLE queued_event (
	dag_id VARCHAR(250) NOT NULL, 
	event_id INTEGER NOT NULL, 
	asset_id INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, partition_key VARCHAR(250), satisfies VARCHAR(2000) DEFAULT '' NOT NULL, 
	CONSTRAINT pk_queued_event PRIMARY KEY (dag_id, event_id), 
	CONSTRAINT fk_queued_event_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_queued_event_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id), 
	CONSTRAINT fk_queued_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id)
);
INSERT INTO "queued_event" VALUES('both',1,1,'2026-11-28 17:24:15.455000',NULL,'');
INSERT INTO "queued_event" VALUES('held',1,1,'2026-11-28 17:24:15.455000',NULL,'');
INSERT INTO "queued_event" VALUES('both',3,1,'2026-11-28 17:24:15.879000',NULL,'');
INSERT INTO "queued_event" VALUES('held',3,1,'2026-11-28 17:24:15.879000',NULL,'');
INSERT INTO "queued_event" VALUES('daily',7,6,'2026-11-28 17:24:16.297000','2|eu','');
CREATE TABLE rejected_item (
	watcher VARCHAR(250) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	"key" TEXT NOT NULL, 
	version TEXT NOT NULL, 
	column_name TEXT, 
	code VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	rejected_at DATETIME NOT NULL, 
	retry_at DATETIME, 
	CONSTRAINT pk_rejected_item PRIMARY KEY (watcher, digest)
);
CREATE TABLE replay (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER, 
	partition_key VARCHAR(250), 
	from_at DATETIME NOT NULL, 
	to_at DATETIME NOT NULL, 
	include_dropped BOOLEAN NOT NULL, 
	expected_count BIGINT NOT NULL, 
	last_event BIGINT NOT NULL, 
	last_run BIGINT NOT NULL, 
	at_event BIGINT DEFAULT '0' NOT NULL, 
	at_run BIGINT DEFAULT '0' NOT NULL, 
	queued_events BIGINT DEFAULT '0' NOT NULL, 
	cleared_runs BIGINT DEFAULT '0' NOT NULL, 
	actor VARCHAR(250) NOT NULL, 
	created_at DATETIME NOT NULL, 
	finished_at DATETIME, 
	CONSTRAINT fk_replay_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id), 
	CONSTRAINT fk_replay_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "replay" VALUES(1,'aliased',NULL,NULL,'2020-01-01 00:00:00.000000','2100-01-01 00:00:00.000000',1,2,8,0,3,0,2,0,'anonymous','2026-11-28 17:24:16.555000','2026-11-28 17:24:16.572000');
CREATE TABLE run (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	dag_id VARCHAR(250) NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	run_type VARCHAR(32) NOT NULL, 
	triggered_by VARCHAR(32) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT, 
	warning TEXT, 
	conf TEXT DEFAULT '{}' NOT NULL, 
	note TEXT, 
	trace_id VARCHAR(32) NOT NULL, 
	logical_date DATETIME, 
	data_interval_start DATETIME, 
	data_interval_end DATETIME, 
	run_after DATETIME NOT NULL, 
	queued_at DATETIME NOT NULL, 
	start_date DATETIME, 
	end_date DATETIME, bad_records BIGINT, bad_records_resolved_at DATETIME, partition_key VARCHAR(250), partition_complete BOOLEAN, late BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT fk_run_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id), 
	CONSTRAINT uq_run_dag_id_run_id UNIQUE (dag_id, run_id)
);
INSERT INTO "run" VALUES(1,'load','asset_triggered__2026-11-28T17:24:15.464000+00:00_0','asset_triggered','asset','success',NULL,NULL,'{}',NULL,'556ab2ef34262711da53b9c8a2700a00',NULL,NULL,NULL,'2026-11-28 17:24:15.466000','2026-11-28 17:24:15.466000','2026-11-28 17:24:15.475000','2026-11-28 17:24:15.641000',NULL,NULL,NULL,NULL,0);
INSERT INTO "run" VALUES(2,'load','asset_triggered__2026-11-28T17:24:15.890000+00:00_0','asset_triggered','asset','success',NULL,NULL,'{}',NULL,'c7d4729cafc778a2a158a8797b123cdd',NULL,NULL,NULL,'2026-11-28 17:24:15.890000','2026-11-28 17:24:15.890000','2026-11-28 17:24:15.896000','2026-11-28 17:24:16.040000',NULL,NULL,NULL,NULL,0);
INSERT INTO "run" VALUES(3,'daily','asset_triggered__2026-11-28T17:24:16.302000+00:00_0','asset_triggered','asset','success',NULL,NULL,'{}',NULL,'d96c689073134e3a2716ea08e833eca6',NULL,NULL,NULL,'2026-11-28 17:24:16.316000','2026-11-28 17:24:16.316000','2026-11-28 17:24:16.322000','2026-11-28 17:24:16.466000',NULL,NULL,'1',1,0);
INSERT INTO "run" VALUES(4,'slow','asset_triggered__2026-11-28T17:24:16.721000+00:00_0','asset_triggered','asset','running',NULL,NULL,'{}',NULL,'a5cc3af5b48f79aaf6ea219ed37ee137',NULL,NULL,NULL,'2026-11-28 17:24:16.721000','2026-11-28 17:24:16.721000','2026-11-28 17:24:16.726000',NULL,NULL,NULL,NULL,NULL,0);
CREATE TABLE run_asset_event (
	dag_id VARCHAR(250) NOT NULL, 
	event_id INTEGER NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	completed BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_run_asset_event PRIMARY KEY (dag_id, event_id), 
	CONSTRAINT fk_run_asset_event_dag_id_run_id FOREIGN KEY(dag_id, run_id) REFERENCES run (dag_id, run_id), 
	CONSTRAINT fk_run_asset_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id)
);
INSERT INTO "run_asset_event" VALUES('load',1,'asset_triggered__2026-11-28T17:24:15.464000+00:00_0',1);
INSERT INTO "run_asset_event" VALUES('load',3,'asset_triggered__2026-11-28T17:24:15.890000+00:00_0',1);
INSERT INTO "run_asset_event" VALUES('daily',5,'asset_triggered__2026-11-28T17:24:16.302000+00:00_0',0);
INSERT INTO "run_asset_event" VALUES('daily',6,'asset_triggered__2026-11-28T17:24:16.302000+00:00_0',1);
INSERT INTO "run_asset_event" VALUES('slow',9,'asset_triggered__2026-11-28T17:24:16.721000+00:00_0',1);
CREATE TABLE setting (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_setting PRIMARY KEY ("key")
);
INSERT INTO "setting" VALUES('configuration_hash','2d956a3593a1dd3a0bae6653de76942e702fe7180ca1307596184efd0804e8f2');
INSERT INTO "setting" VALUES('instance','548e6dc5-c014-41e6-81a0-9cbb6730e17f');
INSERT INTO "setting" VALUES('signing_keys','{"digests": ["d0ff6d43f082b30f64feda42732617ec05ffb2044902c97357251300bb396ec0"], "host": "vm", "pid": 16558}');
CREATE TABLE task_instance (
	id VARCHAR(36) NOT NULL, 
	dag_id VARCHAR(250) NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	task_id VARCHAR(250) NOT NULL, 
	map_index INTEGER DEFAULT '-1' NOT NULL, 
	origin VARCHAR(8) DEFAULT 'own' NOT NULL, 
	try_number INTEGER DEFAULT '0' NOT NULL, 
	state VARCHAR(24) NOT NULL, 
	detail TEXT, 
	not_before DATETIME, 
	start_date DATETIME, 
	end_date DATETIME, 
	CONSTRAINT pk_task_instance PRIMARY KEY (id), 
	CONSTRAINT uq_task_instance_dag_id_run_id_task_id_map_index UNIQUE (dag_id, run_id, task_id, map_index)
);
INSERT INTO "task_instance" VALUES('58f64ed1-6e7e-40dc-93bb-4b6b564fdb04','load','asset_triggered__2026-11-28T17:24:15.464000+00:00_0','load',-1,'own',1,'success',NULL,NULL,'2026-11-28 17:24:15.562000','2026-11-28 17:24:15.640000');
INSERT INTO "task_instance" VALUES('07819157-40c7-465f-8dd4-a97f41784e40','load','asset_triggered__2026-11-28T17:24:15.890000+00:00_0','load',-1,'own',1,'success',NULL,NULL,'2026-11-28 17:24:15.976000','2026-11-28 17:24:16.040000');
INSERT INTO "task_instance" VALUES('1bc3e32f-034a-4dc5-beee-e42efc4358f4','daily','asset_triggered__2026-11-28T17:24:16.302000+00:00_0','load',-1,'own',1,'success',NULL,NULL,'2026-11-28 17:24:16.399000','2026-11-28 17:24:16.465000');
INSERT INTO "task_instance" VALUES('65c5b6fa-f07d-4b09-b55f-de00dee1e1d4','slow','asset_triggered__2026-11-28T17:24:16.721000+00:00_0','slow',-1,'own',1,'running',NULL,NULL,'2026-11-28 17:24:16.805000',NULL);
CREATE TABLE task_store (
	dag_id VARCHAR(250) NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	task_id VARCHAR(250) NOT NULL, 
	map_index INTEGER NOT NULL, 
	"key" VARCHAR(512) NOT NULL, 
	value TEXT NOT NULL, 
	is_ref BOOLEAN DEFAULT 0 NOT NULL, 
	updated_at DATETIME NOT NULL, 
	expires_at DATETIME, 
	never_expire BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_task_store PRIMARY KEY (dag_id, run_id, task_id, map_index, "key")
);
INSERT INTO "task_store" VALUES('slow','asset_triggered__2026-11-28T17:24:16.721000+00:00_0','slow',-1,'began','true',0,'2026-11-28 17:24:16.873000','2026-12-28 17:24:16.870650',0);
CREATE TABLE task_try (
	task_instance_id VARCHAR(36) NOT NULL, 
	try_number INTEGER NOT NULL, 
	home_id VARCHAR(36) NOT NULL, 
	tag VARCHAR(64) NOT NULL, 
	token_hash VARCHAR(64) NOT NULL, 
	handle TEXT, 
	nonce VARCHAR(64), 
	finish_state VARCHAR(16), 
	message TEXT, 
	progress TEXT, 
	exit_code INTEGER, 
	counted BOOLEAN DEFAULT 1 NOT NULL, 
	intent_at DATETIME NOT NULL, 
	submitted_at DATETIME, 
	claimed_at DATETIME, 
	cancelled_at DATETIME, 
	ended_at DATETIME, submitter VARCHAR(250) DEFAULT 'spark-submit' NOT NULL, first_action_at DATETIME, cost TEXT, is_final BOOLEAN DEFAULT 0 NOT NULL, renewed_at DATETIME, forget_at DATETIME, lease_holder VARCHAR(64), 
	CONSTRAINT pk_task_try PRIMARY KEY (task_instance_id, try_number), 
	CONSTRAINT fk_task_try_task_instance_id FOREIGN KEY(task_instance_id) REFERENCES task_instance (id), 
	CONSTRAINT uq_task_try_tag UNIQUE (tag)
);
INSERT INTO "task_try" VALUES('58f64ed1-6e7e-40dc-93bb-4b6b564fdb04',1,'a1f285c4-df2b-4312-82b2-15ad637d9037','run-58f64ed1-6e7e-40dc-93bb-4b6b564fdb04-1','ab0175898d486039456fb4263d00dedb31d7b19dac65781e36603a2becece0d1','{"folder": "/the/folder/home/runs/load/58f64ed1-6e7e-40dc-93bb-4b6b564fdb04/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:24:15.464000+00:00_0/load/-1/1.log", "tag": "run-58f64ed1-6e7e-40dc-93bb-4b6b564fdb04-1"}','28d7e6e3c9f84d4e8f9ef021bcd8b423','success',NULL,NULL,0,0,'2026-11-28 17:24:15.474000','2026-11-28 17:24:15.560000','2026-11-28 17:24:15.620000',NULL,'2026-11-28 17:24:15.870000','spark-submit',NULL,'{"cpu_seconds": 0.108, "peak_memory_mb": 23}',0,NULL,NULL,NULL);
INSERT INTO "task_try" VALUES('07819157-40c7-465f-8dd4-a97f41784e40',1,'a1f285c4-df2b-4312-82b2-15ad637d9037','run-07819157-40c7-465f-8dd4-a97f41784e40-1','9626cd2eb5b89d7a1e02cd82b7f09fe9df22307c9348237f6f97f51059326c4b','{"folder": "/the/folder/home/runs/load/07819157-40c7-465f-8dd4-a97f41784e40/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:24:15.890000+00:00_0/load/-1/1.log", "tag": "run-07819157-40c7-465f-8dd4-a97f41784e40-1"}','097360b6a112419bbfcd83db2b0f2e95','success',NULL,NULL,0,0,'2026-11-28 17:24:15.896000','2026-11-28 17:24:15.975000','2026-11-28 17:24:16.028000',NULL,'2026-11-28 17:24:16.282000','spark-submit',NULL,'{"cpu_seconds": 0.106, "peak_memory_mb": 23}',0,NULL,NULL,NULL);
INSERT INTO "task_try" VALUES('1bc3e32f-034a-4dc5-beee-e42efc4358f4',1,'a1f285c4-df2b-4312-82b2-15ad637d9037','run-1bc3e32f-034a-4dc5-beee-e42efc4358f4-1','11aef6a05246cd2e04af065c836705647f6d3328843fb94915168d8a28162917','{"folder": "/the/folder/home/runs/daily/1bc3e32f-034a-4dc5-beee-e42efc4358f4/1", "log": "/the/folder/home/logs/runs/daily/asset_triggered__2026-11-28T17:24:16.302000+00:00_0/load/-1/1.log", "tag": "run-1bc3e32f-034a-4dc5-beee-e42efc4358f4-1"}','a153d9ef4e94436ab0243e5019c84724','success',NULL,NULL,0,0,'2026-11-28 17:24:16.322000','2026-11-28 17:24:16.398000','2026-11-28 17:24:16.453000',NULL,'2026-11-28 17:24:16.704000','spark-submit',NULL,'{"cpu_seconds": 0.106, "peak_memory_mb": 23}',0,NULL,NULL,NULL);
INSERT INTO "task_try" VALUES('65c5b6fa-f07d-4b09-b55f-de00dee1e1d4',1,'a1f285c4-df2b-4312-82b2-15ad637d9037','run-65c5b6fa-f07d-4b09-b55f-de00dee1e1d4-1','c5871e42f1e0093b1d6df04cdf1be9c56578905f6d31fbd858447d112a498e73','{"folder": "/the/folder/home/runs/slow/65c5b6fa-f07d-4b09-b55f-de00dee1e1d4/1", "log": "/the/folder/home/logs/runs/slow/asset_triggered__2026-11-28T17:24:16.721000+00:00_0/slow/-1/1.log", "tag": "run-65c5b6fa-f07d-4b09-b55f-de00dee1e1d4-1"}','11f3983dd4354f02a1c6e378d7f9f6af',NULL,NULL,NULL,NULL,1,'2026-11-28 17:24:16.726000','2026-11-28 17:24:16.802000','2026-11-28 17:24:16.862000',NULL,NULL,'spark-submit',NULL,NULL,0,NULL,NULL,NULL);
CREATE TABLE triggerer (
	id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	pid INTEGER NOT NULL, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, capacity INTEGER DEFAULT '10000' NOT NULL, configuration VARCHAR(64), definitions TEXT, 
	CONSTRAINT pk_triggerer PRIMARY KEY (id)
);
INSERT INTO "triggerer" VALUES('ada3fea0-469f-40e8-ba1b-a71d0787c835','vm',16558,'2026-11-28 17:24:15.184000','2026-11-28 17:24:16.683000','2026-11-28 17:24:21.683000',10000,'2d956a3593a1dd3a0bae6653de76942e702fe7180ca1307596184efd0804e8f2','{"inbox_files": "b1ffa401beb27ddb", "number_files": "fd9b80eaeee6e6c9", "day_files": "e22cded6e8d07d05"}');
CREATE TABLE watcher (
	name VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	"trigger" VARCHAR(1000) NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	paused BOOLEAN DEFAULT 0 NOT NULL, 
	state VARCHAR(16) DEFAULT 'stopped' NOT NULL, 
	error TEXT, 
	error_count INTEGER DEFAULT '0' NOT NULL, 
	last_poll_at DATETIME, 
	last_event_at DATETIME, 
	lag_seconds INTEGER, up_to TEXT, up_to_version BIGINT, definition VARCHAR(64), findings TEXT, polls TEXT, failing_since DATETIME, next_try_at DATETIME, 
	CONSTRAINT pk_watcher PRIMARY KEY (name), 
	CONSTRAINT fk_watcher_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "watcher" VALUES('inbox_files',1,'file.new_files',1,0,'running',NULL,0,'2026-11-28 17:24:16.505624','2026-11-28 17:24:15.884000',0,'"2026-11-28T17:24:16.485969Z"',3,'b1ffa401beb27ddb',NULL,'{"polls": [{"started": "2026-11-28T17:24:15.451Z", "seconds": 0.009339, "found": 1, "committed": 1, "error": null, "times": 1}, {"started": "2026-11-28T17:24:15.865Z", "seconds": 0.021513, "found": 1, "committed": 1, "error": null, "times": 1}], "lag": {"newest": 498857, "seconds": [0.317]}}',NULL,NULL);
INSERT INTO "watcher" VALUES('number_files',2,'file.new_files',1,0,'running',NULL,0,'2026-11-28 17:24:16.505770','2026-11-28 17:24:16.719000',0,'"2026-11-28T17:24:16.486125Z"',1,'fd9b80eaeee6e6c9',NULL,NULL,NULL,NULL);
INSERT INTO "watcher" VALUES('day_files',6,'file.new_files',1,0,'running',NULL,0,'2026-11-28 17:24:16.505841','2026-11-28 17:24:16.299000',0,'"2026-11-28T17:24:16.486149Z"',2,'e22cded6e8d07d05',NULL,'{"polls": [{"started": "2026-11-28T17:24:16.294Z", "seconds": 0.006819, "found": 3, "committed": 3, "error": null, "times": 1}], "lag": {"newest": 498857, "seconds": [0.529]}}',NULL,NULL);
CREATE TABLE watcher_asset (
	watcher VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_watcher_asset PRIMARY KEY (watcher, asset_id), 
	CONSTRAINT fk_watcher_asset_watcher FOREIGN KEY(watcher) REFERENCES watcher (name), 
	CONSTRAINT fk_watcher_asset_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "watcher_asset" VALUES('day_files',7,1);
CREATE TABLE watcher_position (
	watcher VARCHAR(250) NOT NULL, 
	source_identity TEXT, 
	owner VARCHAR(36), 
	epoch BIGINT DEFAULT '0' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	watermark TEXT, 
	state TEXT, 
	previous TEXT, 
	updated_at DATETIME, format INTEGER DEFAULT '1' NOT NULL, undo_ended TEXT, 
	CONSTRAINT pk_watcher_position PRIMARY KEY (watcher)
);
INSERT INTO "watcher_position" VALUES('day_files','{"match": null, "min_size": 0, "path": "/the/folder/days", "regex": null, "trigger": "file.new_files"}','ada3fea0-469f-40e8-ba1b-a71d0787c835',1,2,'{"up_to": "2026-11-28T17:24:16.274866Z", "horizon": null, "seen": 3, "scan": null}','{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:24:16.274866Z"}',NULL,'2026-11-28 17:24:16.296000',3,NULL);
INSERT INTO "watcher_position" VALUES('inbox_files','{"match": null, "min_size": 0, "path": "/the/folder/inbox", "regex": null, "trigger": "file.new_files"}','ada3fea0-469f-40e8-ba1b-a71d0787c835',1,3,'{"up_to": "2026-11-28T17:24:15.845928Z", "horizon": null, "seen": 2, "scan": null}','{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:24:15.845928Z"}',NULL,'2026-11-28 17:24:15.876000',3,NULL);
INSERT INTO "watcher_position" VALUES('number_files','{"match": null, "min_size": 0, "path": "/the/folder/numbers", "regex": null, "trigger": "file.new_files"}','ada3fea0-469f-40e8-ba1b-a71d0787c835',1,2,'{"up_to": "2026-11-28T17:24:16.691731Z", "horizon": null, "seen": 1, "scan": null}','{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:24:16.691731Z"}',NULL,'2026-11-28 17:24:16.716000',3,NULL);
CREATE TABLE watcher_position_chunk (
	watcher VARCHAR(250) NOT NULL, 
	number BIGINT NOT NULL, 
	data BLOB NOT NULL, 
	CONSTRAINT pk_watcher_position_chunk PRIMARY KEY (watcher, number)
);
CREATE TABLE watcher_position_row (
	watcher VARCHAR(250) NOT NULL, 
	member BIGINT NOT NULL, 
	value BIGINT NOT NULL, 
	CONSTRAINT pk_watcher_position_row PRIMARY KEY (watcher, member)
);
INSERT INTO "watcher_position_row" VALUES('inbox_files',-9129696096640172753,1795886655331135);
INSERT INTO "watcher_position_row" VALUES('inbox_files',-1878572983816620567,1795886655667449);
INSERT INTO "watcher_position_row" VALUES('day_files',-558457243106342564,1795886656099021);
INSERT INTO "watcher_position_row" VALUES('day_files',4629520084660720932,1795886656099575);
INSERT INTO "watcher_position_row" VALUES('day_files',-8841927046988609565,1795886656100465);
INSERT INTO "watcher_position_row" VALUES('number_files',-8358310831174102930,1795886656667877);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_audit_write_id ON audit (write_id);
CREATE INDEX ix_execution_answer_created_at ON execution_answer (created_at);
CREATE INDEX ix_task_instance_state ON task_instance (state);
CREATE INDEX ix_task_store_expires_at ON task_store (expires_at);
CREATE INDEX ix_watcher_position_row_watcher_value ON watcher_position_row (watcher, value);
CREATE INDEX ix_asset_alias_asset_asset_id ON asset_alias_asset (asset_id);
CREATE INDEX ix_asset_event_asset_id_id ON asset_event (asset_id, id);
CREATE INDEX ix_asset_event_timestamp ON asset_event (timestamp);
CREATE INDEX ix_asset_store_history_write_id ON asset_store_history (write_id);
CREATE INDEX ix_asset_store_history_written_at ON asset_store_history (written_at);
CREATE INDEX ix_job_inlet_asset_id ON job_inlet (asset_id);
CREATE INDEX ix_job_inlet_alias_alias_id ON job_inlet_alias (alias_id);
CREATE INDEX ix_job_outlet_asset_id ON job_outlet (asset_id);
CREATE INDEX ix_job_outlet_alias_alias_id ON job_outlet_alias (alias_id);
CREATE INDEX ix_job_schedule_alias_alias_id ON job_schedule_alias (alias_id);
CREATE INDEX ix_job_schedule_asset_asset_id ON job_schedule_asset (asset_id);
CREATE INDEX ix_task_try_home_id_ended_at ON task_try (home_id, ended_at);
CREATE INDEX ix_watcher_asset_id ON watcher (asset_id);
CREATE INDEX ix_asset_alias_event_event_id ON asset_alias_event (event_id);
CREATE INDEX ix_queued_event_asset_id ON queued_event (asset_id);
CREATE INDEX ix_queued_event_event_id ON queued_event (event_id);
CREATE INDEX ix_run_asset_event_dag_id_run_id ON run_asset_event (dag_id, run_id);
CREATE INDEX ix_run_asset_event_event_id ON run_asset_event (event_id);
CREATE INDEX ix_asset_event_trace_id ON asset_event (trace_id);
CREATE INDEX ix_run_trace_id ON run (trace_id);
CREATE INDEX ix_asset_store_history_dag_id_run_id ON asset_store_history (dag_id, run_id) WHERE dag_id IS NOT NULL;
CREATE INDEX ix_asset_event_source_dag_id_source_run_id ON asset_event (source_dag_id, source_run_id) WHERE source_dag_id IS NOT NULL;
CREATE INDEX ix_outbox_asset_event_id ON outbox (asset_event_id);
CREATE INDEX ix_outbox_destination_lane_id ON outbox (destination, lane, id);
CREATE INDEX ix_run_bad_records ON run (bad_records) WHERE bad_records > 0 AND bad_records_resolved_at IS NULL;
CREATE INDEX ix_run_state_dag_id_id ON run (state, dag_id, id);
CREATE INDEX ix_task_try_open ON task_try (task_instance_id) WHERE ended_at IS NULL;
CREATE INDEX ix_dropped_event_event_id ON dropped_event (event_id);
CREATE INDEX ix_replay_dag_id ON replay (dag_id);
CREATE INDEX ix_task_try_forget_at ON task_try (forget_at) WHERE forget_at IS NOT NULL;
CREATE INDEX ix_queued_event_first ON queued_event (dag_id, asset_id, satisfies, event_id);
CREATE INDEX ix_asset_event_asset_id_sketches ON asset_event (asset_id, sketch_high, sketch_low, sketch_bits, sketch_more_bits, id);
CREATE INDEX ix_run_end_date ON run (end_date);
CREATE INDEX ix_cleaning_watcher_due_at ON cleaning (watcher, due_at);
CREATE INDEX ix_watcher_asset_asset_id ON watcher_asset (asset_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('asset',7);
INSERT INTO "sqlite_sequence" VALUES('asset_alias',1);
INSERT INTO "sqlite_sequence" VALUES('audit',4);
INSERT INTO "sqlite_sequence" VALUES('asset_event',9);
INSERT INTO "sqlite_sequence" VALUES('run',4);
INSERT INTO "sqlite_sequence" VALUES('outbox',3);
INSERT INTO "sqlite_sequence" VALUES('replay',1);
COMMIT;
