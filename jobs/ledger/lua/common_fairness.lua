-- Put after common_chains.lua: whose job is next. An owner has as many messages in a queue's list as workers take from
-- it, at least one. Its other jobs wait in its backlog. When a job of its with a message leaves the queue, its next job
-- is sent in the same step, behind the messages of others: owners go round robin. An open server has one owner, whose
-- messages are all sent at once.
--   backlog:<queue>:<owner>  zset  queued jobs without a message, in order; their `number` is minus their place there
--   window:<queue>           hash  by owner, how many queued jobs have a message
-- In `counts`, workers:<queue> is how many live workers take from a queue, as the sweeper last saw; unserved:<queue> is
-- there where none does.
local OPEN = 'anonymous' -- as in jobs/models.py
local UNSENT = 2 ^ 52 -- in queued:<queue> jobs without a message come after those with one, by this much
local REFUSED_SEEN = 100 -- jobs, those that were refused first
local left = {} -- whose jobs leave a queue in this step

local function backlog_key(queue, owner)
  return prefix .. 'backlog:' .. queue .. ':' .. owner
end

local function window_key(queue)
  return prefix .. 'window:' .. queue
end

local function set_sent(queue, owner, sent)
  local window = window_key(queue)
  if sent > 0 then
    redis.call('HSET', window, owner, int(sent))
  else
    redis.call('HDEL', window, owner)
  end
end

-- How many messages an owner may have in the list.
local function window_of(queue)
  local workers = 'workers:' .. queue
  return math.max(1, known[workers] or read_counts(workers, 'number:' .. queue)[workers])
end

-- The same, and one more for each of its jobs that a worker refused: these take nobody's turn, and would else hold up its
-- other jobs until they are given up. Mostly there are none. `gone`: by id, those that leave in this step.
local function share_of(queue, owner, gone)
  local share = window_of(queue)
  for _, id in ipairs(redis.call('ZRANGE', prefix .. 'refused', 0, REFUSED_SEEN - 1)) do
    local state, its_owner, its_queue, number = unpack(redis.call('HMGET', job_key(id), 'state', 'owner', 'queue', 'number'))
    if state == 'queued' and its_owner == owner and its_queue == queue and tonumber(number) > 0 and not gone[id] then
      share = share + 1
    end
  end
  return share
end

-- Puts a job into its owner's backlog, if the owner has its share of messages: its place there then, else nil.
wait_in_backlog = function(job)
  if job.owner == OPEN then
    return nil
  end
  local queue, owner = job.queue, job.owner
  local window, backlog = window_key(queue), backlog_key(queue, owner)
  local sent = redis.call('HGET', window, owner)
  if not sent or (redis.call('EXISTS', backlog) == 0 and tonumber(sent) < share_of(queue, owner, {})) then
    redis.call('HINCRBY', window, owner, 1)
    return nil
  end
  local place = next_number(queue)
  job.number = '-' .. place
  write('ZADD', queued_key(queue), int(UNSENT + place), job.id)
  redis.call('ZADD', backlog, place, job.id)
  return place
end

-- A job leaves its queue: see `send_following`.
leave_window = function(job)
  if job.owner == OPEN or job.number == '0' then
    return
  end
  local of
  for _, other in ipairs(left) do
    of = other.queue == job.queue and other.owner == job.owner and other or of
  end
  if not of then
    of = {queue = job.queue, owner = job.owner, sent = 0, unsent = {}, gone = {}}
    left[#left + 1] = of
  end
  of.gone[job.id] = true
  if tonumber(job.number) > 0 then
    of.sent = of.sent + 1
  else
    of.unsent[#of.unsent + 1] = job.id
  end
end

-- Sends the owner's next jobs, at most `max_jobs`. Returns how many it sent.
local function send_next(queue, owner, max_jobs, at)
  local backlog, sent = backlog_key(queue, owner), 0
  while sent < max_jobs do
    local first = redis.call('ZPOPMIN', backlog, max_jobs - sent) -- ids, each with its place
    if #first == 0 then
      break
    end
    for i = 1, #first, 2 do
      local id = first[i]
      local state, attempt, timeout, number =
        unpack(redis.call('HMGET', job_key(id), 'state', 'attempt', 'timeout', 'number'))
      if state == 'queued' and tonumber(number) < 0 then -- else the scripts of another version took it
        number = send({id = id, queue = queue, attempt = attempt, timeout = timeout})
        redis.call('HSET', job_key(id), 'number', number, 'first', number, 'published', at, 'sent', at)
        sent = sent + 1
      end
    end
  end
  return sent
end

-- After jobs left: the next ones of their owners are sent, in the order in which these left.
local function send_following(at)
  for _, of in ipairs(left) do
    local queue, owner = of.queue, of.owner
    if #of.unsent > 0 then
      redis.call('ZREM', backlog_key(queue, owner), unpack(of.unsent))
    end
    if of.sent > 0 then
      local before = tonumber(redis.call('HGET', window_key(queue), owner) or 0)
      local sent = math.max(0, before - of.sent)
      sent = sent + send_next(queue, owner, share_of(queue, owner, of.gone) - sent, at)
      if sent ~= before then
        set_sent(queue, owner, sent)
      end
    end
  end
end

-- When the first message of this attempt was sent: when it was queued, or when it left the backlog.
local function first_sent(job)
  return job.owner == OPEN and job.queued or int(math.max(job.queued, redis.call('HGET', job_key(job.id), 'sent') or 0))
end

-- Takes the message of a job that is called off out of the list, which is short: it would hold up those of others.
local function take_out(job)
  if job.owner ~= OPEN and job.state == 'queued' and tonumber(job.number) > 0 then
    redis.call('LREM', LISTS .. job.queue, -1, message_of(job.id, job.attempt, job.queue, job.timeout, job.number))
  end
end

-- At most `max_jobs` other jobs for the launch of this one: first its owner's next ones, for the place in the round is
-- its owner's; then the oldest of all, up to the number `near`.
local function companions(job, max_jobs, near)
  local found, taken, batch = {}, {[job.id] = true}, batch_key(job)
  if job.owner ~= OPEN then
    local own = redis.call('ZRANGE', backlog_key(job.queue, job.owner), 0, max_jobs - 1)
    local fits = #own > 0 and redis.call('ZMSCORE', batch, unpack(own))
    for i, id in ipairs(own) do
      if fits[i] and id ~= job.id then
        found[#found + 1], taken[id] = id, true
      end
    end
  end
  local more = {}
  if max_jobs > #found then
    more = redis.call('ZRANGEBYSCORE', batch, '-inf', near, 'LIMIT', 0, max_jobs + #found + 1)
  end
  for _, id in ipairs(more) do
    if not taken[id] and #found < max_jobs then
      found[#found + 1] = id
    end
  end
  return found
end

-- How many queued jobs come before this one if nobody sends more, -1 where it is not queued. For a job in a backlog as
-- many as may: of each owner as many as of its own.
place_of = function(queue, owner, number, id)
  local before = tonumber(number) < 0 and redis.call('ZRANK', backlog_key(queue, owner), id)
  if not before then
    return redis.call('ZRANK', queued_key(queue), id) or -1
  end
  local owners = redis.call('HLEN', window_key(queue))
  return math.min((window_of(queue) + before + 1) * owners, redis.call('ZCARD', queued_key(queue))) - 1
end
