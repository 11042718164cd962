# SPDX-License-Identifier: Apache-2.0
#
# ruby.rb - the kernel of Ruby contexts: evaluates cells from the agent at the top level and keeps what they define
#
# Theory of operation: descriptor 3 is a socket to the agent: "RUN <bytes>\n" and a cell, "CD <bytes>\n" and a directory come in, frames go out
# (u32 length, u8 kind, u8 more, payload; docs/PROTOCOL.agent.md), DONE last. Cells share TOPLEVEL_BINDING, so nothing of ours is a local variable there.
# SIGINT raises Interrupt while a cell runs and is nothing at any other time; "INT\n" precedes it, so that one that came before the cell began is found
# in the socket. Another number in /run/pando/generation says that this process is a copy: its generators are seeded anew before the next cell, or by SIGURG in
# the middle of one.
require "json"
require "ripper"
require "socket"

module PandoKernel
  FRAME_MAX = 32 << 10  # bytes of one frame's payload
  RESULT_MAX = 16 << 20 # bytes of one result as JSON; a larger one is not sent
  RESULT, ERROR, READY, DONE = 3, 4, 6, 7
  GENERATION = "/run/pando/generation"
  QUIET = %i[assign opassign massign def defs class module alias undef void_stmt].freeze # last statements whose value nobody wants to see

  @socket = BasicSocket.for_fd(3)
  @socket.close_on_exec = true
  @pid = Process.pid
  @pending = String.new(encoding: Encoding::BINARY)
  @count = 0
  @running = false
  @given = [nil, STDOUT.dup, STDERR.dup]

  class << self
    def fill
      piece = @socket.recv(65_536)
      exit!(0) if piece.nil? || piece.empty? # the agent is gone
      @pending << piece
    end

    # [word, text] of the next message.
    def receive
      fill until (line = @pending.slice!(/\A[^\n]*\n/n))
      word, size = line.split
      fill while @pending.bytesize < size.to_i
      [word, @pending.slice!(0, size.to_i)]
    end

    # Whether an interrupt of the cell that was received last is there.
    def interrupted?
      piece = @socket.recv_nonblock(65_536, exception: false)
      @pending << piece if piece.is_a?(String)
      @pending.start_with?("INT\n")
    end

    def send_frames(kind, payload = "")
      return if Process.pid != @pid # a child of a cell has nothing to say here

      left = payload.b
      loop do
        piece = left.slice!(0, FRAME_MAX) || ""
        data = [piece.bytesize + 2, kind, left.empty? ? 0 : 1].pack("NCC") + piece
        data = data.byteslice(@socket.send(data, 0)..) until data.empty?
        break if left.empty?
      end
    end

    def send_json(kind, value)
      send_frames(kind, JSON.generate(value))
    end

    # As UTF-8, whatever it was.
    def text(value)
      value.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
    end

    def generation
      File.read(GENERATION)
    rescue SystemCallError
      ""
    end

    # Generators of this process that a copy of the machine must not share.
    def seed
      now = generation
      return if now == @generation

      @generation = now
      Random.srand
      OpenSSL::Random.random_add(Random.urandom(64), 64.0) if defined?(OpenSSL::Random)
    end

    # Descriptors 1 and 2 as they were given to us, also after a cell that closed (Ruby keeps the descriptor then) or replaced them.
    def restore_output
      $stdout, $stderr = [[STDOUT, 1], [STDERR, 2]].map do |stream, fd|
        stream = IO.for_fd(fd, "w", autoclose: false) if stream.closed?
        stream.reopen(@given[fd]) if stream.stat.ino != @given[fd].stat.ino
        stream.sync = true
        stream
      end
    end

    def flush
      [$stdout, $stderr].each { |stream| stream.flush if stream.respond_to?(:flush) }
    rescue IOError, SystemCallError
      nil # closed by the cell; the next one gets a new one
    end

    def quiet?(code)
      last = (Ripper.sexp(code) || [nil, []])[1].last
      code.rstrip.end_with?(";") || last.nil? || QUIET.include?(last[0])
    end

    def show(value)
      shown = { "text/plain" => text(value.inspect) }
      shown["text/html"] = text(value.to_html.to_s) if value.respond_to?(:to_html)
      note = JSON.generate(shown)
      note = JSON.generate("text/plain" => "[result left out: #{note.bytesize} bytes, more than #{RESULT_MAX}]") if note.bytesize > RESULT_MAX
      send_frames(RESULT, note)
    end

    def describe(error)
      value = text(error.message.to_s)
      lines = (error.backtrace || []).take_while { |line| !line.start_with?(__FILE__) } # what called the cell is ours and Ruby's
      trace = ["#{lines.empty? ? "" : "#{lines[0]}: "}#{value} (#{error.class})", *lines.drop(1).map { |line| "\tfrom #{line}" }]
      trace << describe(error.cause)["traceback"] if error.cause
      { "name" => error.class.to_s, "value" => value, "traceback" => text(trace.join("\n")) }
    rescue StandardError => e
      { "name" => error.class.to_s, "value" => "", "traceback" => "#{error.class} (it cannot be shown: #{e.class})" }
    end

    def evaluate(code)
      @running = true
      raise Interrupt, "the cell was interrupted" if interrupted? # its signal came too early

      value = TOPLEVEL_BINDING.eval(code, "<cell #{@count}>", 1)
      flush
      show(value) unless value.nil? || quiet?(code)
      nil
    rescue Exception => e # whatever it is, the kernel stays; rubocop:disable Lint/RescueException
      e
    ensure
      @running = false
    end

    def run(code)
      restore_output
      seed
      @count += 1 unless code.empty?
      error =
        begin
          evaluate(code)
        rescue Interrupt => e # it came between two steps of ours
          e
        end
      @running = false
      exit!(0) if Process.pid != @pid # a fork of the cell that came back here
      flush
      send_json(ERROR, describe(error)) if error
      send_frames(DONE, [@count].pack("N"))
    end

    def move(path)
      Dir.chdir(path)
    rescue SystemCallError => e
      @given[2].write("enter directory #{path.inspect}: #{e.message}\n")
    end

    # To the end of this process.
    def serve
      trap("INT") { raise Interrupt, "the cell was interrupted" if @running }
      trap("URG") { Random.srand }
      @generation = generation
      restore_output
      send_frames(READY)
      loop do
        word, given = receive
        case word
        when "RUN" then run(given.force_encoding(Encoding::UTF_8).scrub)
        when "CD" then move(given)
        when "INT" then next # its cell has ended
        else exit!(1)
        end
      end
    end
  end
end

$PROGRAM_NAME = "ruby"
ARGV.clear
PandoKernel.serve
