-- Beside the database `watcher`, which PostgreSQL makes by itself: Airflow's, and a shop with a table to watch.
CREATE DATABASE airflow;
CREATE DATABASE shop;
\connect shop
CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL, city text);
INSERT INTO customers (email, city) VALUES ('ada@example.org', 'London'), ('grace@example.org', 'New York');
